"""load_model: which importer reads what, and what none reads."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import httpx
import onnx
import pytest
from huggingface_hub.errors import (
    GatedRepoError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from chipwise.errors import InputError, ModelFormatError, OutputError
from chipwise.model.importer import hub, load_model
from tests.model.importer.small_models import LLAMA, decoder_arrays, small_gguf, write_hf
from tests.model.importer.test_onnx_file import small_graph


def test_every_format(tmp_path: Path) -> None:
    onnx.save(small_graph(), tmp_path / "m.onnx")
    assert load_model(small_gguf(tmp_path / "m.gguf")).source.kind == "gguf"
    assert load_model(str(tmp_path / "m.onnx")).source.kind == "onnx"
    assert load_model(write_hf(tmp_path / "hf", LLAMA, decoder_arrays(LLAMA))).source.kind == "huggingface"


def test_suffixes_in_capitals(tmp_path: Path) -> None:
    assert load_model(small_gguf(tmp_path / "M.GGUF")).source.kind == "gguf"


@pytest.mark.parametrize("ref", ["", "  "])
def test_an_empty_reference_is_not_the_folder_one_is_in(ref: str) -> None:
    with pytest.raises(InputError, match="MODEL is empty") as caught:
        load_model(ref)
    assert caught.value.where is None
    assert "give a Hugging Face folder" in str(caught.value)


@pytest.mark.parametrize("name", ["missing", "missing.gguf", "no/such/folder", ""])
def test_no_such_path(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such file or folder|no config.json"):
        load_model(tmp_path / name)


def test_folders_and_files_of_no_kind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no config\.json.*hf:org/name"):
        load_model(tmp_path)
    (tmp_path / "model.bin").write_bytes(b"x")
    with pytest.raises(InputError, match=r"a \.bin file is no model"):
        load_model(tmp_path / "model.bin")
    (tmp_path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(InputError, match="give the folder it lies in"):
        load_model(tmp_path / "model.safetensors")
    small_gguf(tmp_path / "m.gguf")
    with pytest.raises(InputError, match=r"m\.gguf"):
        load_model(tmp_path)


def test_longest_context_is_handed_on(tmp_path: Path) -> None:
    config = {
        **LLAMA,
        "model_type": "phi3",
        "original_max_position_embeddings": 64,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4},
    }
    folder = write_hf(tmp_path, config, decoder_arrays(config))
    assert getattr(load_model(folder).config, "max_positions", 0) == 64
    assert getattr(load_model(folder, max_context=100).config, "max_positions", 0) == 128


def test_hub_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Any]] = []
    folder = write_hf(tmp_path / "snapshots" / "0123abc", LLAMA, decoder_arrays(LLAMA))

    def snapshot(repo: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        asked.append((repo, revision))
        assert "config.json" in allow_patterns
        return str(folder)

    monkeypatch.setattr(hub, "snapshot_download", snapshot)
    assert load_model("hf:org/Small").source.name == "Small"
    assert load_model("hf:org/Small@v1.0").source.path == folder
    assert asked == [("org/Small", None), ("org/Small", "v1.0")]


def _response(status: int) -> httpx.Response:
    return httpx.Response(status, request=httpx.Request("GET", "https://hub.test"))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (HFValidationError("bad"), "not a model id; write hf:org/name"),
        (GatedRepoError("g", response=_response(403)), "agreement first; accept its terms"),
        (RepositoryNotFoundError("r", response=_response(404)), "no such model, or it is private; check the id"),
        (RevisionNotFoundError("v", response=_response(404)), "no revision 'v9'"),
        (LocalEntryNotFoundError("l"), "cannot be reached.*check the network"),
        (httpx.ConnectError("name resolution\nfailed"), "the download failed.*check the network"),
    ],
)
def test_hub_errors_are_one_line(error: Exception, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> str:
        raise error

    monkeypatch.setattr(hub, "snapshot_download", fail)
    with pytest.raises(InputError, match=message) as caught:
        load_model("hf:org/name@v9")
    assert str(caught.value).startswith("hf:org/name@v9: ")
    assert "\n" not in str(caught.value)


def test_a_full_disk_is_no_matter_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> str:
        raise RuntimeError("the download failed") from OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(hub, "snapshot_download", fail)
    with pytest.raises(OutputError, match="no space left to write") as caught:
        load_model("hf:org/name")
    assert caught.value.where == hub.HF_HUB_CACHE


def test_ids_that_the_hub_could_not_have() -> None:
    with pytest.raises(InputError, match="not a model id"):
        load_model("hf:a/b/c")


def test_a_hub_model_without_a_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "snapshot_download", lambda *_, **__: str(tmp_path))
    with pytest.raises(ModelFormatError, match=r"config\.json"):
        load_model("hf:org/name")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_folder_in_place_of_a_file_comes_with_what_to_do(name: str, tmp_path: Path) -> None:
    folder = write_hf(tmp_path / "hf", LLAMA, decoder_arrays(LLAMA))
    (folder / name).unlink(missing_ok=True)
    (folder / name).mkdir()
    with pytest.raises(InputError, match=rf"{name}: not a file; download the model again"):
        load_model(folder)
