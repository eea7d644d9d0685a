from __future__ import annotations

import base64
import contextlib
import io
import json
import queue
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.engine.graph_session import Arrays, TensorSpec
from chipwise.errors import RequestError
from chipwise.serve.api.infer import read_ask
from chipwise.serve.inference import image as images
from chipwise.serve.inference import stages
from chipwise.serve.inference.feed_buffer import FeedBuffer
from chipwise.serve.inference.image_settings import ImageSettings
from chipwise.serve.inference.stages import Ask, inference_stages
from chipwise.serve.inference.tensor import Given
from tests.serve.fakes import null_graph, null_model, says
from tests.serve.live import Live, live

PATH = "/v1/infer"
TIMEOUT_S = 20.0
X = TensorSpec("x", (None, 3), np.dtype(np.float32))
Y = TensorSpec("y", (2,), np.dtype(np.int64))
IMAGE = TensorSpec("image", (None, 3, 4, 6), np.dtype(np.float32))
GIVEN_X = {"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1.5, -2, 3]}
GIVEN_Y = {"name": "y", "shape": [2], "datatype": "INT64", "data": [5, -(2**60)]}


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    with live(null_model(next_token=says("ok")), graph=null_graph(X, Y)) as running:
        yield running


def ask(server: Live, *inputs: Any, **fields: Any) -> httpx.Response:
    return server.http.post(PATH, json={"inputs": list(inputs), **fields})


def test_tensors_in_tensors_out(server: Live) -> None:
    answer = ask(server, GIVEN_Y, GIVEN_X, id="mine", model="null-graph").json()
    assert answer == {
        "model_name": "null-graph",
        "id": "mine",
        "outputs": [
            {"name": "x_out", "datatype": "FP32", "shape": [1, 3], "data": [1.5, -2.0, 3.0]},
            {"name": "y_out", "datatype": "INT64", "shape": [2], "data": [5, -(2**60)]},
        ],
    }
    raw = base64.b64encode(np.array([1.5, -2, 3], "<f4").tobytes()).decode()
    again = ask(server, {**GIVEN_X, "data": raw}, GIVEN_Y, outputs=[{"name": "x_out"}]).json()
    assert again["outputs"] == answer["outputs"][:1]


def test_bytes_behind_the_json_in_both_directions(server: Live) -> None:
    """The protocol's binary extension."""
    x = np.arange(6, dtype="<f4").reshape(2, 3)
    head = {
        "inputs": [
            GIVEN_Y,
            {"name": "x", "shape": [2, 3], "datatype": "FP32", "parameters": {"binary_data_size": x.nbytes}},
        ],
        "outputs": [{"name": "x_out", "parameters": {"binary_data": True}}, {"name": "y_out"}],
    }
    text = json.dumps(head).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))}
    response = server.http.post(PATH, content=text + x.tobytes(), headers=headers)
    length = int(response.headers["inference-header-content-length"])
    outputs = json.loads(response.content[:length])["outputs"]
    assert outputs[0] == {
        "name": "x_out", "datatype": "FP32", "shape": [2, 3], "parameters": {"binary_data_size": 24}
    }  # fmt: skip
    assert np.array_equal(np.frombuffer(response.content[length:], "<f4").reshape(2, 3), x)
    assert outputs[1]["data"] == GIVEN_Y["data"]


def test_what_the_model_takes_can_be_asked(server: Live) -> None:
    assert server.http.get(PATH).json() == {
        "name": "null-graph",
        "platform": "chipwise",
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [-1, 3]},
            {"name": "y", "datatype": "INT64", "shape": [2]},
        ],
        "outputs": [{"name": "x_out"}, {"name": "y_out"}],
    }
    assert [model["id"] for model in server.http.get("/v1/models").json()["data"]] == ["null-bytes", "null-graph"]


def test_a_model_for_several_shapes_says_which_and_refuses_others() -> None:
    shapes = ({"x": (1, 3), "y": (2,)}, {"x": (4, 3), "y": (2,)})
    with live(null_model(next_token=says("ok")), graph=replace(null_graph(X, Y), shapes=shapes)) as running:
        assert running.http.get(PATH).json()["parameters"] == {
            "shapes": [{"x": [1, 3], "y": [2]}, {"x": [4, 3], "y": [2]}]
        }
        for rows, status in ((1, 200), (2, 400), (4, 200)):
            answer = ask(running, GIVEN_Y, {**GIVEN_X, "shape": [rows, 3], "data": [1.0] * (3 * rows)})
            assert answer.status_code == status
            if status == 400:
                message = answer.json()["error"]["message"]
                assert "are y [2], x [2, 3], the model takes x [1, 3], y [2]; x [4, 3], y [2]" in message


def test_what_was_decoded_to_a_shape_that_is_not_listed_is_the_clients_fault() -> None:
    prepare, *_ = inference_stages("m", null_graph(X).session, (X,), ({"x": (1, 3)},))
    given = Given("x", (2, 3), "FP32", [1.0] * 6, "inputs[0]")
    with pytest.raises(RequestError, match=r"are x \[2, 3\], the model takes x \[1, 3\]"):
        prepare.work([Ask(None, [given], {})], [FeedBuffer()])


BINARY = {**GIVEN_X, "data": None, "parameters": {"binary_data_size": 12}}
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({}, "inputs", "field required"),
    ({"inputs": []}, "inputs", "at least 1 item"),
    ({"inputs": [GIVEN_X]}, "inputs", "the input 'y' is missing"),
    ({"inputs": [GIVEN_X, GIVEN_X]}, "inputs[1].name", "given twice"),
    ({"inputs": [{**GIVEN_X, "name": "z"}]}, "inputs[0].name", "the model has no input 'z'; it has x, y"),
    ({"inputs": [{**GIVEN_X, "datatype": "FP64"}, GIVEN_Y]}, "inputs[0].datatype", "takes FP32, not FP64"),
    ({"inputs": [{**GIVEN_X, "datatype": "float"}, GIVEN_Y]}, "inputs[0].datatype", "'FP32'"),
    ({"inputs": [{**GIVEN_X, "shape": [3]}, GIVEN_Y]}, "inputs[0].shape", "takes [-1, 3] (-1 is free)"),
    ({"inputs": [{**GIVEN_X, "shape": [0, 3]}, GIVEN_Y]}, "inputs[0].shape[0]", "greater"),
    ({"inputs": [{**GIVEN_X, "shape": [1 << 39, 3]}, GIVEN_Y]}, "inputs[0].data", "needs 1649267441664"),
    ({"inputs": [{**GIVEN_X, "data": [1, 2]}, GIVEN_Y]}, "inputs[0].data", "holds 2 numbers, the shape [1, 3] needs 3"),
    ({"inputs": [{**GIVEN_X, "data": "no base64 ****  "}, GIVEN_Y]}, "inputs[0].data", "no base64"),
    ({"inputs": [{**GIVEN_X, "data": None}, GIVEN_Y]}, "inputs[0].data", "is missing"),
    ({"inputs": [BINARY, GIVEN_Y]}, "inputs[0].parameters.binary_data_size", "the body has 0 bytes left"),
    ({"inputs": [{**BINARY, "data": [1]}, GIVEN_Y]}, "inputs[0].parameters.binary_data_size", "is beside data"),
    (
        {"inputs": [{**GIVEN_X, "datatype": "BYTES", "shape": [1], "data": [""]}, GIVEN_Y]},
        "inputs[0].datatype",
        "none of",
    ),
    (
        {"inputs": [GIVEN_X, GIVEN_Y], "outputs": [{"name": "q"}]},
        "outputs[0].name",
        "no output 'q'; it has x_out, y_out",
    ),
]


@pytest.mark.parametrize(("body", "param", "words"), REFUSED)
def test_refused_with_the_place_and_the_reason(server: Live, body: dict[str, Any], param: str, words: str) -> None:
    response = server.http.post(PATH, json=body)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, param)
    assert words in error["message"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
WILD = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["x", "y", "image"]) | JSON,
        "shape": st.lists(st.integers(-1, 4) | st.just(1 << 40), max_size=5) | JSON,
        "datatype": st.sampled_from(["FP32", "INT64", "BOOL", "BYTES"]) | JSON,
        "data": JSON,
    },
    optional={"parameters": st.fixed_dictionaries({}, optional={"image": JSON, "binary_data_size": JSON}) | JSON},
)


@settings(max_examples=200, deadline=None)
@given(inputs=st.lists(WILD, max_size=3), length=st.none() | st.text("0123456789-", max_size=4))
def test_whatever_is_sent_is_either_fit_or_refused(inputs: list[dict[str, Any]], length: str | None) -> None:
    model = null_graph(X, Y, IMAGE)
    with contextlib.suppress(RequestError):
        ask, _ = read_ask(model, json.dumps({"inputs": inputs}).encode(), length)
        assert {one.name for one in ask.tensors} == {"x", "y", "image"}


def test_lengths_that_do_not_fit_the_body_are_refused(server: Live) -> None:
    text = json.dumps({"inputs": [GIVEN_X, GIVEN_Y]}).encode()
    for length in ("-1", "many", str(len(text) + 1)):
        response = server.http.post(PATH, content=text, headers={"Inference-Header-Content-Length": length})
        assert response.status_code == 400
        assert "inference-header-content-length" in response.json()["error"]["message"]
    trailing = server.http.post(PATH, content=text + b"x", headers={"Inference-Header-Content-Length": str(len(text))})
    assert "1 bytes behind the JSON belong to no input" in trailing.json()["error"]["message"]


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ("[" + ",".join(["1"] * 2_000_002) + "]", "body: lists more than 2,000,000 values"),
        ("[" + ",".join(['{"name": "x"}'] * 4_096) + "]", "body: holds more than 4096 objects"),
    ],
)
def test_json_whose_reading_would_stop_the_server_is_refused_unread(
    server: Live, monkeypatch: pytest.MonkeyPatch, inputs: str, words: str
) -> None:
    monkeypatch.setattr("chipwise.serve.api.infer.read_form", None)
    response = server.http.post(PATH, content=f'{{"inputs": {inputs}}}')
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(words)


def test_a_long_list_of_numbers_is_whole_and_a_longer_one_goes_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = (np.arange(3 * 20_000, dtype=np.float32) / 7).reshape(-1, 3)
    given = {"name": "x", "shape": list(numbers.shape), "datatype": "FP32", "data": numbers.ravel().tolist()}
    with live(None, graph=null_graph(X)) as server:
        (output,) = ask(server, given).json()["outputs"]
        assert output["shape"] == [20_000, 3]
        assert np.array_equal(np.array(output["data"], np.float32), numbers.ravel())
        monkeypatch.setattr(stages, "_MAX_JSON_BYTES", 100_000)
        refused = ask(server, given)
        assert refused.status_code == 400
        assert "ask for it as binary data" in refused.json()["error"]["message"]
        as_bytes = ask(server, given, parameters={"binary_data_output": True})
        assert as_bytes.status_code == 200
        assert as_bytes.content.endswith(numbers.tobytes())


def test_the_wrong_model_and_no_graph_are_404(server: Live) -> None:
    wrong = ask(server, GIVEN_X, GIVEN_Y, model="null-bytes")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (404, "model_not_found")
    with live(null_model(next_token=says("ok"))) as chat:
        absent = ask(chat, GIVEN_X)
    assert absent.status_code == 404
    assert "start it with --infer BUNDLE" in absent.json()["error"]["message"]


def test_numbers_that_json_has_no_word_for_go_as_bytes() -> None:
    with live(None, graph=null_graph(X, spoil=np.inf)) as server:
        refused = ask(server, GIVEN_X)
        assert refused.status_code == 500
        assert "ask for it as binary data" in refused.json()["error"]["message"]
        assert ask(server, GIVEN_X, parameters={"binary_data_output": True}).status_code == 200


@pytest.mark.parametrize("setting", [{"scale": 1e308}, {"std": [1e-300]}, {"std": [0.0]}, {"mean": [-1e39]}])
def test_factors_that_float32_does_not_hold_are_refused(setting: dict[str, Any]) -> None:
    given = {"name": "image", "shape": [1], "datatype": "BYTES", "data": [""], "parameters": {"image": setting}}
    with live(None, graph=null_graph(IMAGE)) as server:
        response = ask(server, given)
    assert response.status_code == 400
    assert f"parameters.image.{next(iter(setting))}" in response.json()["error"]["message"]


def picture(value: int, form: str = "PNG") -> bytes:
    image = pytest.importorskip("PIL.Image").new("RGB", (12, 8), (value, value, value))
    out = io.BytesIO()
    image.save(out, form)
    return out.getvalue()


def given_images(*pictures: bytes, **image: Any) -> dict[str, Any]:
    data = [base64.b64encode(one).decode() for one in pictures]
    given = {"name": "image", "shape": [len(data)], "datatype": "BYTES", "data": data}
    return {**given, "parameters": {"image": image}} if image else given


def test_pictures_by_the_settings_of_the_bundle_and_of_the_request() -> None:
    own = {"image": ImageSettings(mean=[0.5], std=[0.25])}
    with live(None, graph=null_graph(IMAGE, images=own)) as server:
        output = ask(server, given_images(picture(255), picture(0, "JPEG"))).json()["outputs"][0]
        assert output["shape"] == [2, 3, 4, 6]
        assert np.allclose(np.array(output["data"]).reshape(2, -1), [[2], [-2]], atol=0.02)
        changed = ask(server, given_images(picture(255), mean=[0.0])).json()["outputs"][0]
        assert np.allclose(changed["data"], 4)
        one = picture(255)
        binary = {**given_images(one), "parameters": {"binary_data_size": len(one) + 4}}
        text = json.dumps({"inputs": [{**binary, "data": None}]}).encode()
        headers = {"Inference-Header-Content-Length": str(len(text))}
        sent = server.http.post(PATH, content=text + struct.pack("<I", len(one)) + one, headers=headers)
        assert np.allclose(sent.json()["outputs"][0]["data"], 2)
        for wrong, words in (
            (given_images(b"GIF89a"), "inputs[0].data[0]: is no JPEG or PNG"),
            (given_images(one, mean=[1.0, 2.0]), "inputs[0].parameters.image.mean: needs 1 number or 3"),
            (given_images(one, fit="squeeze"), "inputs[0].parameters.image.fit"),
            (given_images(one, sharpen=1), "inputs[0].parameters.image.sharpen"),
            ({**given_images(one), "shape": [2]}, "inputs[0].shape: is [2], there are 1 pictures"),
            ({**given_images(one), "data": ["***"]}, "inputs[0].data: is no base64"),
        ):
            response = ask(server, wrong)
            assert response.status_code == 400
            assert words in response.json()["error"]["message"]
        assert ask(server, given_images(one)).status_code == 200


def test_pictures_without_a_decoder_are_501(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(name)

    with live(None, graph=null_graph(IMAGE)) as server:
        given = given_images(picture(1))
        monkeypatch.setattr(images.importlib, "import_module", absent)
        response = ask(server, given)
        monkeypatch.undo()
    assert response.status_code == 501
    assert "pip install 'chipwise[images]'" in response.json()["error"]["message"]


def test_requests_in_flight_do_not_touch_each_other() -> None:
    """The arrays of the next request are filled while the graph runs: buffers must not be shared."""
    with live(None, graph=null_graph(X)) as server, ThreadPoolExecutor(8) as pool:

        def one(i: int) -> list[float]:
            data = [float(i), i + 0.25, i + 0.5]
            return ask(server, {**GIVEN_X, "data": data}).json()["outputs"][0]["data"]

        assert list(pool.map(one, range(60))) == [[i, i + 0.25, i + 0.5] for i in range(60)]


def test_a_full_queue_and_a_client_that_leaves() -> None:
    entered: queue.SimpleQueue[float] = queue.SimpleQueue()
    opened = threading.Event()

    def gate(feed: Arrays) -> None:
        entered.put(float(feed["x"][0, 0]))
        assert opened.wait(TIMEOUT_S)

    with live(None, graph=null_graph(X, gate=gate), max_waiting=1) as server, ThreadPoolExecutor(8) as pool:
        pipeline = server.site.inference.current.pipeline
        running = [pool.submit(ask, server, GIVEN_X)]
        entered.get(timeout=TIMEOUT_S)
        with httpx.Client(base_url=server.url, verify=False, timeout=0.2) as other, pytest.raises(httpx.ReadTimeout):
            other.post(PATH, json={"inputs": [{**GIVEN_X, "data": [9, 9, 9]}]})
        server.wait(lambda: pipeline.n_live == 1)
        # One runs, one is prepared, and one waits before the first stage, which has no place to fill.
        for n in (2, 3):
            running.append(pool.submit(ask, server, {**GIVEN_X, "data": [n, 0, 0]}))
            server.wait(lambda n=n: pipeline.n_live == n)
        refused = ask(server, GIVEN_X)
        assert refused.status_code == 429
        opened.set()
        assert [one.result().status_code for one in running] == [200, 200, 200]
        assert [entered.get(timeout=TIMEOUT_S) for _ in range(2)] == [2, 3]
        assert server.metric('chipwise_jobs_total{kind="infer",outcome="cancelled"}') == 1


def test_a_server_without_a_graph_says_how_it_gets_one() -> None:
    with live(null_model()) as server:
        for answer in (server.http.get("/v1/infer"), server.http.post("/v1/infer", json={})):
            assert answer.status_code == 404
            assert "--infer BUNDLE" in answer.json()["error"]["message"]
