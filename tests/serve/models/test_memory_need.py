from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.bundle import open_bundle
from chipwise.errors import UnavailableError
from chipwise.serve.models.memory_need import machine_free_bytes, need_bytes, refuse_too_large
from tests.serve.forms import with_variant, write_form
from tests.serve.shot_forms import write_graph

DECODER = {"n_layers": 3, "n_kv_heads": 2, "head_dim": 8}


def test_files_slots_and_what_a_runtime_takes(tmp_path: Path) -> None:
    plain = open_bundle(write_form(tmp_path / "plain"))
    decoder = open_bundle(write_form(tmp_path / "decoder", config=DECODER))
    (entry,) = plain.manifest.engine_files.values()
    assert need_bytes(plain, 4, 100) == entry.bytes + (64 << 20)
    # Keys and values, 3 layers, 2 heads of 8 channels, 4 bytes each.
    assert need_bytes(decoder, 4, 100) == entry.bytes + (64 << 20) + 2 * 3 * 2 * 8 * 4 * 4 * 100


def test_what_does_not_fit_is_refused_with_both_numbers(tmp_path: Path) -> None:
    cool = open_bundle(with_variant(tmp_path)).variants["cool"]
    refuse_too_large(cool, 1000, 1000.0)
    refuse_too_large(cool, 1 << 40, None)
    with pytest.raises(UnavailableError, match="tiny:cool needs 300 MB beside the model that is served, 200 MB are"):
        refuse_too_large(cool, 300_000_000, 2e8)


def test_the_remedy_is_one_that_the_model_knows(tmp_path: Path) -> None:
    for path, remedy in ((write_form(tmp_path / "c"), "shorter --context"), (write_graph(tmp_path / "g"), "end what")):
        with pytest.raises(UnavailableError, match=remedy):
            refuse_too_large(open_bundle(path), 2, 1.0)


def test_what_is_free_on_this_machine_is_told_if_it_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "meminfo"
    monkeypatch.setattr("chipwise.serve.models.memory_need._MEMINFO", told)
    assert machine_free_bytes() is None
    told.write_text("MemTotal:       2000 kB\nMemAvailable:    1000 kB\n")
    assert machine_free_bytes() == 1024000
