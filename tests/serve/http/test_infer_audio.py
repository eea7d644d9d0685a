"""Recordings through /v1/infer."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from typing import Any

import httpx
import numpy as np
import pytest

from chipwise.engine.graph_session import TensorSpec
from chipwise.serve.inference import audio
from chipwise.serve.inference.audio_settings import AudioSettings
from chipwise.serve.models.served_graph import ServedGraph
from tests.serve.fakes import null_graph
from tests.serve.live import Live, live

soundfile = pytest.importorskip("soundfile")
pytest.importorskip("soxr")

SOUND = TensorSpec("sound", (None, 8), np.dtype(np.float32))
SAMPLES = np.array([0.5, -0.25, 0.125, 0.0], np.float32)


def graph(**settings: Any) -> ServedGraph:
    return replace(null_graph(SOUND), audio={"sound": AudioSettings(sample_rate_hz=16_000, **settings)})


def recording(samples: np.ndarray = SAMPLES) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, samples, 16_000, format="WAV", subtype="FLOAT")
    return out.getvalue()


def given(*recordings: bytes, **said: Any) -> dict[str, Any]:
    data = [base64.b64encode(one).decode() for one in recordings]
    fields: dict[str, Any] = {"name": "sound", "shape": [len(data)], "datatype": "BYTES", "data": data}
    return {**fields, "parameters": {"audio": said}} if said else fields


def ask(server: Live, fields: dict[str, Any]) -> httpx.Response:
    return server.http.post("/v1/infer", json={"inputs": [fields]})


def test_recordings_by_the_settings_of_the_bundle_and_of_the_request() -> None:
    with live(None, graph=graph(scale=2.0)) as server:
        output = ask(server, given(recording(), recording(SAMPLES[:2]))).json()["outputs"][0]
        assert output["shape"] == [2, 8]
        assert output["data"] == [1.0, -0.5, 0.25, 0, 0, 0, 0, 0, 1.0, -0.5, 0, 0, 0, 0, 0, 0]
        changed = ask(server, given(recording(), scale=1.0)).json()["outputs"][0]
        assert changed["data"][:4] == SAMPLES.tolist()
        refused = [
            (given(b"ID3"), "inputs[0].data[0]: is no recording that can be decoded (Format not recognised.)"),
            (given(recording(), scale=1e13), "inputs[0].parameters.audio.scale"),
            (given(recording(), scale=1e-300), "inputs[0].parameters.audio.scale"),
            (given(recording(np.zeros(9))), "inputs[0].data[0]: has 9 samples at 16000 Hz, the input takes 8"),
            (given(recording(), loud=1), "inputs[0].parameters.audio.loud"),
            (given(recording(), sample_rate_hz=1), "inputs[0].parameters.audio.sample_rate_hz"),
            ({**given(recording()), "shape": [2]}, "inputs[0].shape: is [2], there are 1 recordings"),
            (
                {**given(recording()), "parameters": {"audio": {}, "image": {}}},
                "inputs[0].parameters: describes a picture and a recording",
            ),
        ]
        for fields, words in refused:
            response = ask(server, fields)
            assert response.status_code == 400, words
            assert response.json()["error"]["message"].startswith(words)
        assert ask(server, given(recording())).status_code == 200


def test_without_settings_in_the_bundle_the_request_says_them() -> None:
    with live(None, graph=null_graph(SOUND)) as server:
        response = ask(server, given(recording(), mono="first"))
        assert response.status_code == 400
        assert "parameters.audio.sample_rate_hz" in response.json()["error"]["message"]
        assert ask(server, given(recording(), sample_rate_hz=16_000)).status_code == 200


def test_recordings_without_a_decoder_are_501(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ImportError(name=name)

    with live(None, graph=graph()) as server:
        fields = given(recording())
        monkeypatch.setattr(audio.importlib, "import_module", absent)
        response = ask(server, fields)
    assert response.status_code == 501
    assert "pip install 'chipwise[audio]'" in response.json()["error"]["message"]
