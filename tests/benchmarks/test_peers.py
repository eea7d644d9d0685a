from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.peers import Peer, cpu_flags, folder, ggml_flags, main, peers


def test_a_peer_that_is_not_installed_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHIPWISE_PEERS", str(tmp_path))
    assert folder() == tmp_path
    for peer in peers():
        assert peer.missing() == "not installed; run python -m benchmarks.peers --install"


def test_a_peer_that_cannot_be_imported_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHIPWISE_PEERS", str(tmp_path))
    (tmp_path / "fake" / "bin").mkdir(parents=True)
    (tmp_path / "fake" / "bin" / "python").symlink_to(sys.executable)
    reason = Peer("fake", "Fake", "no_such_module", ()).missing()
    assert reason is not None
    assert "No module named 'no_such_module'" in reason
    assert Peer("fake", "Fake", "json", ()).missing() is None


def test_the_command_names_each_peer_and_fails_if_one_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("CHIPWISE_PEERS", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["peers"])
    assert main() == 1
    assert capsys.readouterr().out.count("not installed") == 2


def test_llamacpp_is_built_for_what_the_kernel_grants() -> None:
    x86 = ggml_flags(cpu_flags("model name : A\nflags\t\t: fpu avx2 fma avx512f amx_int8\nflags : later"))
    assert x86 == "-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_AVX512=ON -DLLAMA_CURL=OFF"
    assert ggml_flags(cpu_flags("Features : asimddp")).startswith("-DGGML_NATIVE=ON")
