from __future__ import annotations

import hashlib
from pathlib import Path

import openai
import pytest

from chipwise.errors import InputError
from chipwise.files import sha256_bytes
from chipwise.serve.http.keys import Client, Keys, read_keys
from chipwise.serve.request.priority import Priority
from tests.serve.fakes import null_model, says
from tests.serve.live import live

HMI, LOGGER = "hmi-key-0123456789", "logger-key-0123456789"
FILE = f"""
[[keys]]
client = "hmi"
key = "{HMI}"
ceiling = "emergency"

[[keys]]
client = "logger"
key_sha256 = "{hashlib.sha256(LOGGER.encode()).hexdigest()}"
ceiling = "background"

[[keys]]
client = "app"
key = "app-key-0123456789"
"""


def keys_of(tmp_path: Path, text: str = FILE) -> Keys:
    path = tmp_path / "keys.toml"
    path.write_text(text, "utf-8")
    return read_keys(path)


def test_keys_are_read(tmp_path: Path) -> None:
    keys = keys_of(tmp_path)
    assert keys.client(HMI) == Client("hmi", Priority.EMERGENCY)
    assert keys.client(LOGGER) == Client("logger", Priority.BACKGROUND)
    assert keys.client("app-key-0123456789") == Client("app", Priority.INTERACTIVE)
    assert keys.client(HMI + "x") is None
    assert HMI not in repr(keys)


def test_only_who_is_marked_may_exchange_the_model(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    entry = '[[keys]]\nclient = "{0}"\nkey = "{0}-key-0123456789"\n'
    file.write_text(entry.format("app") + entry.format("ops") + "admin = true\n")
    keys = read_keys(file)
    assert [keys.clients[sha256_bytes(f"{name}-key-0123456789".encode())].admin for name in ("app", "ops")] == [
        *(False, True)
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "keys: Field required"),
        ("keys = []", "at least 1 item"),
        ("[[keys", "no TOML"),
        ("\udcff", "no TOML"),
        ('[[keys]]\nclient = "a"', "'a' needs either key or key_sha256"),
        ('[[keys]]\nclient = "a"\nkey = "short"', "keys.0.key: String should have at least 16"),
        ('[[keys]]\nclient = "a"\nkey_sha256 = "12"', "keys.0.key_sha256"),
        ('[[keys]]\nclient = "a"\nkey = "0123456789abcdef"\nceiling = "king"', "keys.0.ceiling: should be one of"),
        ('[[keys]]\nclient = "a"\nkey = "0123456789abcdef"\nextra = 1', "keys.0.extra"),
        (
            '[[keys]]\nclient = "a"\nkey = "0123456789abcdef"\n[[keys]]\nclient = "b"\nkey = "0123456789abcdef"',
            "the same",
        ),
    ],
)
def test_a_wrong_file_is_refused_in_a_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "keys.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError) as refused:
        read_keys(path)
    assert message in str(refused.value)
    assert "0123456789abcdef" not in str(refused.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_keys(tmp_path / "none.toml")


def test_who_has_no_key_is_not_let_in_and_who_has_one_only_as_far_as_it_goes(tmp_path: Path) -> None:
    body = {"prompt": "hello\n", "max_tokens": 2}
    with live(null_model(next_token=says("ok")), keys=keys_of(tmp_path)) as server:

        def ask(key: str | None, **fields):
            headers = {} if key is None else {"authorization": f"Bearer {key}"}
            return server.http.post("/v1/completions", json={**body, **fields}, headers=headers)

        for key in (None, "wrong-key-0123456789", HMI[:-1]):
            refused = ask(key)
            assert refused.status_code == 401
            assert refused.json()["error"]["code"] == "invalid_api_key"
            assert refused.headers["www-authenticate"] == "Bearer"
        assert server.http.get("/v1/models").status_code == 401
        assert server.http.get("/health").status_code == server.http.get("/metrics").status_code == 200
        assert ask(HMI, priority="emergency").status_code == 200
        assert ask(LOGGER).status_code == 200
        above = ask(LOGGER, priority="normal")
        assert above.status_code == 403
        assert above.json()["error"] == {
            "message": "priority: the client 'logger' may ask for background at most, not normal; "
            "lower it, or raise the ceiling in the server's file of keys",
            "type": "invalid_request_error",
            "param": "priority",
            "code": "priority_not_allowed",
        }
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key=HMI, max_retries=0) as client:
            assert client.completions.create(model="null-bytes", prompt="x\n", temperature=0).choices[0].text == "ok"
        with (
            openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client,
            pytest.raises(openai.AuthenticationError),
        ):
            client.models.list()
