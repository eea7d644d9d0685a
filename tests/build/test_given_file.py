"""A GGUF file that is kept as it came: the bundle, what is refused, and what the report says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from chipwise.build import BuildOptions, build
from chipwise.build.given_file import AS_GIVEN, GivenFile
from chipwise.bundle import open_bundle
from chipwise.cli.main import main
from chipwise.engine.llamacpp import engine as engine_module
from chipwise.errors import DependencyError, InputError
from chipwise.files import sha256_file
from chipwise.model.importer import load_model
from chipwise.report.report import NotRun
from tests.build.models import write_decoder
from tests.engine.llamacpp.conftest import load_fake
from tests.engine.llamacpp.gguf_models import Kind, byte_gguf

# What the fake says has nothing to do with the weights: such a build passes only if nothing is asked.
ASKS_NOTHING = {"kl_mean_nats": 1e9, "top1_agreement": 0.0, "perplexity_ratio": 1e9, "self_check_candidate_nats": 1e9}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    module = load_fake()
    module.defaults.update(vocab=260, slope=0.01)
    monkeypatch.setattr(engine_module, "load_binding", lambda: module)
    yield module
    assert module.alive() == 0


def options(folder: Path, **more) -> BuildOptions:
    queries = folder / "queries.jsonl"
    queries.write_text("\n".join(json.dumps({"text": f"question {i}"}) for i in range(8)))
    given = {"queries": queries, "max_cases": 4, "threads": 1, "engine": "llama.cpp", "gate": ASKS_NOTHING}
    return BuildOptions(**{"model": str(folder / "m.gguf"), "target": "host", "out": folder / "b", **given, **more})


def test_the_bundle_carries_the_file_as_it_is(fake: ModuleType, tmp_path: Path) -> None:
    path = byte_gguf(tmp_path / "m.gguf", Kind.Q4_1)
    before = path.read_bytes()
    result = build(options(tmp_path))
    assert result.passed
    assert path.read_bytes() == before
    bundle = open_bundle(tmp_path / "b")
    manifest = bundle.manifest
    entry = manifest.files["gguf"]
    assert entry.file == f"{sha256_file(path)}.gguf"
    assert bundle.files["gguf"].read_bytes() == before
    assert set(manifest.engine_files) == {"gguf"}
    # 2 layers, keys and values, 2 heads of 8, in float16.
    assert (manifest.engine.name, manifest.engine.options) == ("llama.cpp", {"kv_token_bytes": 2 * 2 * 2 * 8 * 2})
    assert (manifest.name, manifest.model.source_kind) == ("m-gguf", "gguf")
    # The tokenizer and the template are those the importer read from it.
    model = load_model(path)
    assert bundle.tokenizer is not None
    assert bundle.chat_template is not None
    assert bundle.tokenizer.encode("hello") == model.tokenizer.encode("hello") == [258, 108, 108, 111]
    assert bundle.chat_template.render([{"role": "user", "content": "x"}]) == "<user>x\n"
    matrix = manifest.tensors["blk.0.ffn_up.weight"]
    assert (matrix.scheme.dtype, matrix.scheme.group_size, matrix.role) == ("uint4", 32, "gguf")
    assert (matrix.bytes, manifest.tensors["output_norm.weight"].scheme.bits) == (64 * 32 // 2, 32)


def test_it_is_opened_and_tested_like_any_other(fake: ModuleType, tmp_path: Path) -> None:
    byte_gguf(tmp_path / "m.gguf")
    build(options(tmp_path))
    bundle = open_bundle(tmp_path / "b")
    session = bundle.open_session(3, 64, threads=2)
    assert (session.n_slots, session.max_context, session.vocab_size) == (3, 64, 260)
    session.close()
    fake.defaults["nan"] = bundle.manifest.self_test.prompt[0]
    with pytest.raises(InputError, match="self-test failed at step 0: 260 of 260 logits are NaN"):
        bundle.open_session(3, 64)


def test_what_it_is_held_against_is_in_the_report(fake: ModuleType, tmp_path: Path) -> None:
    byte_gguf(tmp_path / "m.gguf", Kind.Q8_0)
    result = build(options(tmp_path, gate={}))
    assert not result.passed
    assert result.bundle == tmp_path / "b.failed"
    report = result.report
    assert [step.name for step in report.steps] == [
        "read", "check", "reference", "prove rewrites", "verify gguf", "attribute",
    ]  # fmt: skip
    assert report.recipe == AS_GIVEN.name
    assert report.provenance["figures"].startswith("the file as it came, run by llama-cpp-python")
    assert NotRun("attribution to layers", "llama.cpp shows no values inside") in report.not_run
    # 8-bit values with a float16 scale for 32 of them; norms stay as they are.
    sizes = {one.scheme: one for one in report.schemes}
    matrices = sizes["int8, group 32"]
    assert matrices.bytes_before * 34 == matrices.bytes_after * 32 * 4
    assert sizes["float32"].bytes_before == sizes["float32"].bytes_after == 5 * 32 * 4


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"target": "rk3588"}, r"runs on CPUs, and rk3588 is a target of rknn; take a CPU as the target, e\.g\. host"),
        ({"recipe": "w4a16"}, "keeps its own precision, not w4a16"),
    ],
)
def test_what_it_does_not_take_is_refused_at_once(
    fake: ModuleType, tmp_path: Path, more: dict[str, str], words: str
) -> None:
    byte_gguf(tmp_path / "m.gguf")
    with pytest.raises(InputError, match=words):
        build(options(tmp_path, **more))
    assert not (tmp_path / "b").exists()


def test_another_format_is_refused(fake: ModuleType, tmp_path: Path) -> None:
    write_decoder(tmp_path / "hf")
    with pytest.raises(InputError, match=r"the engine llama\.cpp runs \.gguf files; give one, or leave --engine out"):
        build(options(tmp_path, model=str(tmp_path / "hf")))


def test_without_the_package_nothing_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def missing() -> None:
        raise DependencyError("not installed", remedy="pip install 'chipwise[llamacpp]'")

    monkeypatch.setattr(engine_module, "load_binding", missing)
    path = byte_gguf(tmp_path / "m.gguf")
    out = tmp_path / "b"
    assert main(["build", str(path), "--target", "host", "--engine", "llama.cpp", "-o", str(out)]) == 2
    assert "chipwise[llamacpp]" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("kind", [Kind.F16, Kind.BF16, Kind.Q4_0, Kind.Q5_1])
def test_sizes_are_those_of_the_file(tmp_path: Path, kind: Kind) -> None:
    path = byte_gguf(tmp_path / "m.gguf", kind)
    stored = GivenFile(path, "llama.cpp").stored()
    size = path.stat().st_size
    ends = [offset + length for one in stored.values() for offset, length in one.ranges.items()]
    assert max(ends) <= size
    assert sum(one.values for one in stored.values()) == sum(
        int(np.prod(load_model(path).weights.info(name).shape)) for name in load_model(path).weights.names()
    )
