"""Tensors in shared memory, registered and pointed to as Triton's extension has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from chipwise.engine.graph_session import Arrays, TensorSpec
from chipwise.errors import InputError
from chipwise.serve.assembly.assembly import Served, make_site
from chipwise.serve.http import caller
from chipwise.serve.http.caller import caller_uid
from chipwise.serve.http.keys import read_keys
from chipwise.serve.settings import ServeSettings
from tests.serve.fakes import NullGraph, null_graph
from tests.serve.http import memory_client
from tests.serve.live import Live, live

ROOT = "/v2/systemsharedmemory"
X = TensorSpec("x", (None, 3), np.dtype(np.float32))
Y = TensorSpec("y", (2,), np.dtype(np.int64))


class Placing(NullGraph):
    """Gives back what it is given, aligned outputs in their places, and keeps what it saw."""

    def __init__(self, *inputs: TensorSpec) -> None:
        super().__init__(*inputs)
        self.feeds: list[Arrays] = []
        self.gave: list[dict[str, np.ndarray]] = []

    def run_into(self, feed: Arrays, places: Mapping[str, memoryview]) -> dict[str, np.ndarray]:
        outputs = self.run(feed)
        for name, place in places.items():
            there = np.frombuffer(place, outputs[name].dtype, outputs[name].size).reshape(outputs[name].shape)
            if there.flags.aligned:
                there[...] = outputs[name]
                outputs[name] = there
        self.feeds.append(feed)
        self.gave.append(outputs)
        return outputs


class Shared:
    """A shared memory object of the test's."""

    def __init__(self, name: str, size: int) -> None:
        self.key, self.path = name, Path("/dev/shm") / name
        self.path.write_bytes(bytes(size))

    @property
    def array(self) -> np.ndarray:
        return np.memmap(self.path, np.uint8, "r+")


@pytest.fixture
def shared() -> Iterator[Shared]:
    memory = Shared(f"chipwise-test-{os.getpid()}", 4096)
    yield memory
    memory.path.unlink(missing_ok=True)


@contextmanager
def serving(session: NullGraph | None = None, **settings: Any) -> Iterator[Live]:
    graph = null_graph(X, Y)
    graph = graph if session is None else replace(graph, session=session)
    with live(None, graph=graph, shared_memory=True, **settings) as server:
        yield server


@pytest.fixture
def server() -> Iterator[Live]:
    with serving() as running:
        yield running


def register(server: Live, key: str, name: str = "r", offset: int = 0, byte_size: int = 4096) -> httpx.Response:
    body = {"key": key, "offset": offset, "byte_size": byte_size}
    return server.http.post(f"{ROOT}/region/{name}/register", json=body)


def at(offset: int, size: int, region: str = "r") -> dict[str, Any]:
    return {"shared_memory_region": region, "shared_memory_offset": offset, "shared_memory_byte_size": size}


def ask(server: Live, x: dict[str, Any], *outputs: dict[str, Any], shape: tuple[int, int] = (1, 3)) -> httpx.Response:
    inputs = [
        {"name": "x", "shape": list(shape), "datatype": "FP32", "parameters": x},
        {"name": "y", "shape": [2], "datatype": "INT64", "data": [1, 2]},
    ]
    body: dict[str, Any] = {"inputs": inputs}
    return server.http.post("/v1/infer", json={**body, "outputs": list(outputs)} if outputs else body)


def message(response: httpx.Response) -> str:
    return response.json()["error"]["message"]


def test_another_process_gets_the_same_numbers_and_nothing_is_copied() -> None:
    session = Placing(X, Y)
    with serving(session) as server:
        done = subprocess.run(
            [sys.executable, memory_client.__file__, server.url], capture_output=True, text=True, check=True
        )
        region = server.site.regions.region("mine", "")
        whole = np.frombuffer(region.memory, np.uint8)
        (feed,), (gave,) = session.feeds, session.gave
        assert np.shares_memory(feed["x"], whole)
        assert np.shares_memory(feed["y"], whole)
        assert not feed["x"].flags.writeable
        assert np.shares_memory(gave["x_out"], whole)
        # An odd address is no place for whole numbers: that one was copied there.
        assert not np.shares_memory(gave["y_out"], whole)
    said = json.loads(done.stdout)
    assert said["registered"] == 200
    assert said["found"] == said["sent"]
    assert said["answer"]["outputs"] == [
        {
            "name": "x_out",
            "datatype": "FP32",
            "shape": [4, 3],
            "parameters": {"shared_memory_region": "mine", "shared_memory_offset": 960, "shared_memory_byte_size": 48},
        },
        {
            "name": "y_out",
            "datatype": "INT64",
            "shape": [2],
            "parameters": {
                "shared_memory_region": "mine",
                "shared_memory_offset": 1985,
                "shared_memory_byte_size": 16,
            },
        },
    ]


def test_an_engine_that_cannot_place_outputs_has_them_copied(server: Live, shared: Shared) -> None:
    register(server, shared.key)
    shared.array[:12] = np.array([1.5, -2, 3], "<f4").view(np.uint8)
    answer = ask(server, at(0, 12), {"name": "x_out", "parameters": at(100, 12)})
    assert "data" not in answer.json()["outputs"][0]
    assert shared.array[100:112].view("<f4").tolist() == [1.5, -2, 3]


def test_an_input_at_an_odd_address_is_read_all_the_same(server: Live, shared: Shared) -> None:
    register(server, f"/{shared.key}")
    shared.array[1:13] = np.array([1.5, -2, 3], "<f4").view(np.uint8)
    assert ask(server, at(1, 12)).json()["outputs"][0]["data"] == [1.5, -2, 3]


def test_regions_come_and_go(server: Live, shared: Shared) -> None:
    assert register(server, shared.key, "a", 16, 32).json() == {}
    assert register(server, shared.key, "b").status_code == 200
    a = {"name": "a", "key": shared.key, "offset": 16, "byte_size": 32}
    b = {"name": "b", "key": shared.key, "offset": 0, "byte_size": 4096}
    assert server.http.get(f"{ROOT}/status").json() == [a, b]
    assert server.http.get(f"{ROOT}/region/a/status").json() == [a]
    assert server.http.post(f"{ROOT}/region/a/unregister").status_code == 200
    assert server.http.post(f"{ROOT}/region/a/unregister").status_code == 200
    assert server.http.get(f"{ROOT}/region/a/status").status_code == 400
    assert "no region 'a' is registered" in message(ask(server, at(0, 12, "a")))
    assert server.http.post(f"{ROOT}/unregister").status_code == 200
    assert server.http.get(f"{ROOT}/status").json() == []
    assert shared.path.exists(), "the object is the client's"


@pytest.mark.parametrize(
    ("key", "offset", "byte_size", "words"),
    [
        ("../etc/passwd", 0, 1, "no name of shared memory"),
        ("/../../etc/passwd", 0, 1, "no name of shared memory"),
        ("..", 0, 1, "no name of shared memory"),
        ("/", 0, 1, "no name of shared memory"),
        ("//x", 0, 1, "no name of shared memory"),
        ("a\x00b", 0, 1, "no name of shared memory"),
        ("chipwise-none", 0, 1, "cannot be opened (No such file"),
        (None, 0, 4097, "ends at byte 4097"),
        (None, 4096, 1, "ends at byte 4097"),
        (None, -1, 1, "greater than or equal to 0"),
        (None, 0, 0, "greater than or equal to 1"),
        (None, 1 << 61, 1 << 61, "ends at byte"),
    ],
)
def test_what_is_no_part_of_shared_memory_is_refused(
    server: Live, shared: Shared, key: str | None, offset: int, byte_size: int, words: str
) -> None:
    response = register(server, shared.key if key is None else key, "r", offset, byte_size)
    assert response.status_code == 400
    assert words in message(response)
    assert server.http.get(f"{ROOT}/status").json() == []


def test_links_and_folders_are_no_shared_memory(server: Live, shared: Shared, tmp_path: Path) -> None:
    link = shared.path.with_name(f"{shared.key}-link")
    link.symlink_to("/etc/hostname")
    folder = shared.path.with_name(f"{shared.key}-folder")
    folder.mkdir()
    pipe = shared.path.with_name(f"{shared.key}-pipe")
    os.mkfifo(pipe)
    try:
        for path in (link, folder, pipe):
            assert register(server, path.name, byte_size=1).status_code == 400, path
    finally:
        link.unlink()
        folder.rmdir()
        pipe.unlink()


def test_a_name_is_taken_once_and_is_a_name(server: Live, shared: Shared) -> None:
    assert register(server, shared.key).status_code == 200
    assert "registered already" in message(register(server, shared.key))
    assert register(server, shared.key, "a%20b").status_code == 400
    for i in range(63):
        assert register(server, shared.key, f"r{i}").status_code == 200
    assert "no more are taken" in message(register(server, shared.key, "one-more"))


@pytest.mark.parametrize(
    ("x", "output", "words"),
    [
        (at(4090, 12), None, "ends at byte 4102 of the region 'r', which has 4096"),
        (at(0, 16), None, "holds 16 bytes, the shape [1, 3] needs 12"),
        (at(0, 12, "s"), None, "no region 's' is registered"),
        ({"shared_memory_region": "r"}, None, "shared_memory_byte_size: is missing"),
        ({"shared_memory_byte_size": 12}, None, "shared_memory_region: is missing"),
        ({**at(0, 12), "binary_data_size": 12}, None, "is beside data"),
        (at(0, 12), {"name": "x_out", "parameters": at(0, 8)}, "is 8, the output has 12 bytes"),
        (at(0, 12), {"name": "x_out", "parameters": at(4096, 12)}, "ends at byte 4108"),
    ],
)
def test_a_tensor_outside_is_refused(
    server: Live, shared: Shared, x: dict[str, Any], output: dict[str, Any] | None, words: str
) -> None:
    register(server, shared.key)
    before = shared.array.copy()
    response = ask(server, x, *([] if output is None else [output]))
    assert response.status_code == 400
    assert words in message(response)
    assert np.array_equal(shared.array, before)


def test_memory_that_was_cut_shorter_is_told_before_it_is_touched(server: Live, shared: Shared) -> None:
    register(server, shared.key)
    os.truncate(shared.path, 100)
    response = ask(server, at(3000, 12))
    assert response.status_code == 400
    assert "cut shorter" in message(response)
    assert server.http.get("/health").status_code == 200


def test_a_region_that_is_unregistered_while_it_is_used_stays_until_then(shared: Shared) -> None:
    session = Placing(X, Y)
    with serving(session) as server:
        register(server, shared.key)
        session._gate = lambda feed: server.site.regions.unregister()
        assert ask(server, at(0, 12), {"name": "x_out", "parameters": at(100, 12)}).status_code == 200


def test_without_the_option_it_is_not_there(shared: Shared) -> None:
    with live(None, graph=null_graph(X, Y)) as server:
        assert register(server, shared.key).status_code == 404
        response = ask(server, at(0, 12))
    assert response.status_code == 400
    assert "--shared-memory" in message(response)


def test_the_option_needs_a_plain_graph() -> None:
    with pytest.raises(InputError, match="no plain graph is served"):
        make_site(ServeSettings(shared_memory=True), None, Served())


def test_a_program_of_another_user_is_refused(server: Live, shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    assert register(server, shared.key).status_code == 200
    monkeypatch.setattr(caller, "caller_uid", lambda request: os.geteuid() + 1)
    for response in (
        register(server, shared.key, "s"),
        server.http.get(f"{ROOT}/status"),
        server.http.post(f"{ROOT}/unregister"),
        ask(server, at(0, 12)),
    ):
        assert response.status_code == 403
        assert "server's own user" in message(response)
    monkeypatch.setattr(caller, "caller_uid", lambda request: 0)
    assert ask(server, at(0, 12)).status_code == 200


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP", "Origin"])
def test_who_is_behind_a_proxy_and_pages_in_browsers_are_refused(server: Live, shared: Shared, header: str) -> None:
    assert register(server, shared.key).status_code == 200
    server.http.headers[header] = "http://evil.example"
    try:
        refused = [register(server, shared.key, "s"), ask(server, at(0, 12)), server.http.post(f"{ROOT}/unregister")]
    finally:
        del server.http.headers[header]
    assert [response.status_code for response in refused] == [403, 403, 403]


def test_strangers_to_the_keys_are_refused_first(shared: Shared, tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text('[[keys]]\nclient = "hmi"\nkey = "a secret of 16 characters"\n')
    with serving(keys=read_keys(tmp_path / "keys.toml")) as server:
        assert register(server, shared.key).status_code == 401
        assert server.http.get(f"{ROOT}/status").status_code == 401


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_kernel_says_whose_a_connection_is(host: str) -> None:
    with live(None, graph=null_graph(X, Y), shared_memory=True, host=host) as server:
        assert server.http.get(f"{ROOT}/status").status_code == 200


@pytest.mark.parametrize(
    ("client", "server"),
    [
        (None, ("127.0.0.1", 1)),
        (("192.0.2.7", 1), ("127.0.0.1", 1)),
        (("127.0.0.1", 1), ("192.0.2.7", 1)),
        (("127.0.0.1", 0), ("127.0.0.1", 1)),
        (("testclient", 50000), ("127.0.0.1", 1)),
    ],
)
def test_callers_that_nobody_knows(client: Any, server: Any) -> None:
    assert caller_uid(SimpleNamespace(scope={"client": client, "server": server})) is None


def test_whose_a_connection_is_is_asked_once(server: Live, shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = caller._uid_of

    def look(*ends: Any) -> int | None:
        asked.append(ends)
        return real(*ends)

    monkeypatch.setattr(caller, "_uid_of", look)
    for _ in range(3):
        assert server.http.get(f"{ROOT}/status").status_code == 200
    with httpx.Client(base_url=server.url, verify=False) as another:
        assert another.get(f"{ROOT}/status").status_code == 200
    assert len(asked) == 2
    # Who it is asked for by a proxy is looked at each time.
    assert server.http.get(f"{ROOT}/status", headers={"x-forwarded-for": "192.0.2.7"}).status_code == 403
