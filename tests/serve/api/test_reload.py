from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.bundle import open_bundle
from chipwise.files import sha256_bytes
from chipwise.serve.http.keys import Client, Keys
from tests.serve.fakes import null_encoder, null_model
from tests.serve.forms import exchanging, said, write_form
from tests.serve.live import live

RELOAD = "/v1/admin/reload"


@pytest.fixture
def bundles(tmp_path: Path) -> tuple[Path, Path]:
    return write_form(tmp_path / "a"), write_form(tmp_path / "b", 2, name="other")


def test_another_bundle_and_the_same_again(bundles: tuple[Path, Path]) -> None:
    path, other = bundles
    with exchanging(path) as server:
        before = server.ask().json()["system_fingerprint"]
        answer = server.http.post(RELOAD, json={"bundle": str(other)})
        assert answer.status_code == 200
        told = answer.json()
        assert (told["model"], told["bundle"], told["changed"]) == ("other", str(other), True)
        assert told["system_fingerprint"] == server.ask().json()["system_fingerprint"] != before
        assert server.text() == said("hello\n", 8, 2)
        again = server.http.post(RELOAD)
        assert (again.status_code, again.json()["changed"], again.json()["bundle"]) == (200, False, str(other))


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"bundle": "/none"}, 422, "bundle_refused"),
        ({"bundle": "a\0b"}, 422, "bundle_refused"),
        ({"bundle": "n" * 4096}, 422, "bundle_refused"),
        ({"bundle": "/n" * 2048}, 422, "bundle_refused"),
        ({"bundle": ""}, 400, "invalid_value"),
        ({"bundle": 3}, 400, "invalid_value"),
        ({"path": "/none"}, 400, "invalid_value"),
        ([], 400, "invalid_value"),
    ],
)
def test_what_is_wrong_is_one_line(bundles: tuple[Path, Path], body: object, status: int, code: str) -> None:
    with exchanging(bundles[0]) as server:
        answer = server.http.post(RELOAD, json=body)
        assert answer.status_code == status
        error = answer.json()["error"]
        assert error["code"] == code
        assert "\n" not in error["message"]
        assert server.text() == said("hello\n", 8, 0)
        assert server.metric('chipwise_requests_total{outcome="invalid"}') == 0, "it is no request to the model"


def test_an_altered_bundle_says_what_is_wrong_with_it(bundles: tuple[Path, Path]) -> None:
    path, other = bundles
    open_bundle(other).files["decoder"].write_bytes(b"graph 9")
    with exchanging(path) as server:
        answer = server.http.post(RELOAD, json={"bundle": str(other)})
        assert answer.status_code == 422
        assert "altered: digest" in answer.json()["error"]["message"]
        assert server.text() == said("hello\n", 8, 0)


def test_one_that_does_not_fit_is_503(bundles: tuple[Path, Path]) -> None:
    with exchanging(bundles[0]) as server:
        server.exchange._free_bytes = lambda: 1.0
        answer = server.http.post(RELOAD, json={"bundle": str(bundles[1])})
        assert answer.status_code == 503
        assert "beside the model that is served" in answer.json()["error"]["message"]


@pytest.mark.parametrize("header", ["Origin", "X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"])
def test_pages_in_browsers_and_who_is_behind_a_proxy_may_not(bundles: tuple[Path, Path], header: str) -> None:
    with exchanging(bundles[0]) as server:
        answer = server.http.post(RELOAD, json={"bundle": str(bundles[1])}, headers={header: "http://evil.example"})
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] in ("not_allowed", "not_local")
        assert server.text() == said("hello\n", 8, 0)


def test_with_keys_only_an_administrators_may(bundles: tuple[Path, Path]) -> None:
    clients = {"hmi": Client("hmi"), "ops": Client("ops", admin=True)}
    keys = Keys({sha256_bytes(f"{name} with a long secret".encode()): client for name, client in clients.items()})
    with exchanging(bundles[0], keys=keys) as server:

        def reload(key: str | None) -> tuple[int, str]:
            headers = {} if key is None else {"Authorization": f"Bearer {key} with a long secret"}
            answer = server.http.post(RELOAD, json={"bundle": str(bundles[1])}, headers=headers)
            return answer.status_code, answer.json().get("error", {}).get("code", "")

        assert reload(None) == (401, "invalid_api_key")
        assert reload("hmi") == (403, "not_allowed")
        assert reload("ops") == (200, "")


@pytest.mark.parametrize("uid", [None, 12345])
def test_without_keys_only_programs_of_the_same_user_may(
    bundles: tuple[Path, Path], uid: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chipwise.serve.http.caller.caller_uid", lambda request: uid)
    with exchanging(bundles[0]) as server:
        answer = server.http.post(RELOAD, json={"bundle": str(bundles[1])})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_local")
        assert "without keys, exchanging the model is for programs of the server's own user" in answer.text


def test_a_server_without_anything_to_exchange_says_so() -> None:
    with live(None, encoder=null_encoder()) as server:
        answer = server.http.post(RELOAD, json={})
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_served")
    with live(null_model()) as server:
        assert server.http.post(RELOAD, json={}).status_code == 404
