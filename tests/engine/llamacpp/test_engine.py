"""Opening GGUF files: sizes before anything is loaded, and every failure in one line."""

from __future__ import annotations

import builtins
import os
import sys
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import pytest

from chipwise.engine.llamacpp import LlamaCppEngine, binding
from chipwise.engine.llamacpp import opened as opened_module
from chipwise.engine.llamacpp.binding import load_binding
from chipwise.engine.registry import engines, get_engine
from chipwise.errors import DependencyError, EngineError, InputError, ModelFormatError
from tests.engine.llamacpp.conftest import OpenFake, fake_gguf


def opened(fake: ModuleType, path: Path, **given):
    settings = {"n_slots": 2, "max_context": 100, "options": {}, **given}
    return LlamaCppEngine(fake).open({"gguf": path}, **settings)


def test_it_is_known_whether_installed_or_not() -> None:
    assert "llama.cpp" in engines.names()


def test_without_the_package_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    monkeypatch.delitem(sys.modules, "llama_cpp.llama_cpp", raising=False)
    with pytest.raises(DependencyError, match=r"llama-cpp-python, which is not installed; .*chipwise\[llamacpp\]") as e:
        get_engine("llama.cpp")
    assert e.value.exit_code == 2


@pytest.mark.parametrize("error", [RuntimeError("GLIBCXX_3.4.32 not found"), OSError("no such object")])
def test_a_library_that_does_not_load_is_said(error: Exception) -> None:
    def fails(name: str) -> None:
        raise error

    with (
        patch.object(binding.importlib, "import_module", fails),
        pytest.raises(DependencyError, match=f"cannot be loaded .*{error}"),
    ):
        load_binding()


@pytest.mark.parametrize(("given", "wanted"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_sleep_while_they_wait_unless_told_otherwise(
    fake: ModuleType, monkeypatch: pytest.MonkeyPatch, given: str | None, wanted: str
) -> None:
    seen = []

    def loads(name: str) -> ModuleType:
        seen.append(os.environ["OMP_WAIT_POLICY"])
        return fake

    monkeypatch.setattr(binding.importlib, "import_module", loads)
    # Set first, so that it is what it was when the test is over.
    monkeypatch.setenv("OMP_WAIT_POLICY", given or "")
    if given is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    load_binding()
    assert seen == [wanted]


def test_an_old_release_is_said(fake: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    del fake.llama_memory_seq_rm
    monkeypatch.setattr(binding.importlib, "import_module", lambda name: fake)
    with pytest.raises(DependencyError, match="has no llama_memory_seq_rm; upgrade"):
        load_binding()


def test_kv_that_does_not_fit_is_refused_before_the_file_is_read(fake: ModuleType, tmp_path: Path) -> None:
    path = fake_gguf(tmp_path)
    with patch.object(builtins, "open", side_effect=AssertionError), pytest.raises(InputError) as e:
        opened(fake, path, n_slots=3, options={"kv_token_bytes": 1 << 40})
    assert "3 slots of 256 tokens take" in str(e.value)
    assert "take fewer slots or a shorter context" in str(e.value)
    assert fake.alive() == 0


def test_options(open_fake: OpenFake, fake: ModuleType) -> None:
    session = open_fake(options={"threads": 3, "kv_token_bytes": 10})
    assert fake.context_of(session._opened.context).threads == 3


@pytest.mark.parametrize(("pages", "mode"), [(True, 0), (False, -1)])
def test_weights_are_read_whole_only_for_huge_pages(
    open_fake: OpenFake, fake: ModuleType, monkeypatch: pytest.MonkeyPatch, pages: bool, mode: int
) -> None:
    monkeypatch.setattr(opened_module, "available", lambda: pages)
    open_fake()
    assert fake.load_modes == [mode]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"thread": 1}, "no option 'thread'; it has threads, kv_token_bytes"),
        ({"threads": True}, "threads is True, not a number"),
        ({"threads": -1}, "threads is -1"),
    ],
)
def test_bad_options_are_named(fake: ModuleType, tmp_path: Path, options: dict, words: str) -> None:
    with pytest.raises(EngineError, match=words):
        opened(fake, fake_gguf(tmp_path), options=options)


def test_a_file_that_llama_cpp_does_not_take_is_said_in_its_words(fake: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUFunknown")
    with pytest.raises(EngineError, match=r"cannot load the file \(error loading model: unknown model architecture"):
        opened(fake, path)


def test_no_memory_for_the_context_frees_the_model(fake: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"cannot make a context of 2 slots of 256 tokens \(.*kv cache\)"):
        opened(fake, fake_gguf(tmp_path, no_context=True))
    assert fake.alive() == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no such file"),
        (b"", "no GGUF file"),
        (b"onnx", "no GGUF file"),
        (b"version https://git-lfs.github.com/spec/v1", "Git LFS"),
    ],
)
def test_what_is_no_gguf_never_reaches_the_library(
    fake: ModuleType, tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "x.gguf"
    if content is not None:
        path.write_bytes(content + b"\n" * 20 if content else b"")
    with pytest.raises(ModelFormatError, match=words):
        opened(fake, path)


def test_too_many_slots_and_none(fake: ModuleType, tmp_path: Path) -> None:
    path = fake_gguf(tmp_path)
    with pytest.raises(InputError, match=r"257 slots; llama\.cpp takes 256"):
        opened(fake, path, n_slots=257)
    with pytest.raises(EngineError, match="hold nothing"):
        opened(fake, path, n_slots=0)
    with pytest.raises(EngineError, match="needs the role 'gguf'"):
        LlamaCppEngine(fake).open({"decoder": path}, n_slots=1, max_context=64, options={})
