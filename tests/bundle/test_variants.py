from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from chipwise.bundle import BundleWriter, EngineSpec, Fallback, Manifest, ModelInfo, open_bundle
from chipwise.bundle.quality_cost import QualityCost, quality_cost
from chipwise.bundle.variants import add_variant, remove_variant
from chipwise.errors import BundleError, ChipwiseError, InputError, OutputError
from chipwise.report import Verdict
from tests.bundle.fakes import VOCAB, FakeEngine, a_manifest, a_self_test


def a_model(**config) -> ModelInfo:
    return ModelInfo({"arch": "llama", "vocab_size": VOCAB, "max_positions": 128, **config}, "gguf", "Tiny")


def verdicts(kl_nats: float = 0.02, agreement: float = 0.93) -> tuple[Verdict, ...]:
    return (
        Verdict.judge("kl_mean_nats", kl_nats, 0.1, "max"),
        Verdict.judge("top1_agreement", agreement, 0.9, "min"),
    )


def a_form(out: Path, weights: bytes, *, fallback: bool = False, template: bytes = b"{}", **changes) -> Path:
    """A bundle of one form of a model: weights of its own, and what all forms have."""
    fields = {"model": a_model(), "tensors": {}, "verdicts": verdicts(), **changes}
    with BundleWriter(out) as writer:
        stored = writer.add_bytes("weights", weights, ".bin")
        writer.add_bytes("decoder", b"graph with its weights in " + stored.encode(), ".onnx")
        writer.add_bytes("tokenizer", b"the tokenizer", ".json")
        writer.add_bytes("special_tokens", b"the special tokens", ".json")
        writer.add_bytes("chat_template", template, ".json")
        writer.add_document("report.json", b"of " + weights)
        if fallback:
            writer.add_bytes("fallback.decoder", b"fp16 of " + weights, ".onnx")
            fields["fallback"] = Fallback(EngineSpec("fake"), "fp16", a_self_test())
        return writer.commit(a_manifest(**fields))


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    return a_form(tmp_path / "wide", b"w" * 100)


@pytest.fixture
def narrow(tmp_path: Path) -> Path:
    return a_form(tmp_path / "narrow", b"n" * 40, verdicts=verdicts(0.05, 0.91), engine=EngineSpec("fake", {"x": 1}))


def listing(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_variant_is_a_bundle_in_the_same_folder(wide: Path, narrow: Path) -> None:
    before, theirs, lies = open_bundle(wide), open_bundle(narrow), listing(narrow)
    bundle = add_variant(wide, narrow, "cool")
    assert bundle.manifest.format_version == 3
    assert bundle.files == before.files
    cool = bundle.variants["cool"]
    assert (cool.path, cool.manifest.name) == (wide, "tiny:cool")
    assert cool.manifest.engine == theirs.manifest.engine
    assert cool.manifest.self_test == theirs.manifest.self_test
    assert cool.manifest.verdicts == theirs.manifest.verdicts
    assert cool.files["weights"].read_bytes() == b"n" * 40
    assert cool.files["tokenizer"] == bundle.files["tokenizer"]
    assert open_bundle(wide).variants["cool"].manifest == cool.manifest
    assert listing(narrow) == lies, "the other one is left alone"


def test_what_both_have_is_stored_once(wide: Path, narrow: Path) -> None:
    inode = open_bundle(wide).files["weights"].stat().st_ino
    bundle = add_variant(wide, narrow, "cool")
    assert len(os.listdir(wide / "files")) == 5 + 2
    assert bundle.files["weights"].stat().st_ino == inode, "the bundle's own files are not copied"
    assert bundle.variants["cool"].files["weights"].stat().st_nlink == 1, "the other's are not shared with it"
    assert (wide / "cool_report.json").read_bytes() == b"of " + b"n" * 40
    assert set(os.listdir(wide.parent)) == {"narrow", "wide"}


def test_it_opens_with_its_own_graphs_and_test(wide: Path, narrow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine()
    monkeypatch.setattr("chipwise.bundle.bundle.get_engine", lambda name: engine)
    add_variant(wide, narrow, "cool").variants["cool"].open_session(1, 64)
    assert engine.files["weights"] == b"n" * 40
    assert engine.options == {"x": 1}
    assert engine.sessions[0].held(0)[:6] == [3, 1, 4, 1, 5, 9], "the self-test ran"


def test_the_bundles_fallback_stands_in_for_all_forms(tmp_path: Path) -> None:
    wide, narrow = (a_form(tmp_path / name, name.encode(), fallback=True) for name in ("wide", "narrow"))
    bundle = add_variant(wide, narrow, "cool")
    cool = bundle.variants["cool"]
    assert cool.manifest.fallback == bundle.manifest.fallback
    assert cool.files["fallback.decoder"].read_bytes() == b"fp16 of wide"
    assert b"fp16 of narrow" not in listing(wide).values()


def test_out_again_is_as_before(wide: Path, narrow: Path, tmp_path: Path) -> None:
    before = listing(wide)
    add_variant(wide, narrow, "cool")
    third = a_form(tmp_path / "third", b"3")
    bundle = add_variant(wide, third, "cool-2")
    assert list(bundle.variants) == ["cool", "cool-2"]
    left = remove_variant(wide, "cool")
    assert list(left.variants) == ["cool-2"]
    assert (wide / "cool-2_report.json").exists()
    assert not (wide / "cool_report.json").exists()
    remove_variant(wide, "cool-2")
    assert listing(wide) == before, "down to the format's version"


def test_a_variant_that_was_altered_is_found(wide: Path, narrow: Path) -> None:
    bundle = add_variant(wide, narrow, "cool")
    bundle.variants["cool"].files["weights"].write_bytes(b"m" * 40)
    with pytest.raises(BundleError, match="altered: digest"):
        open_bundle(wide)


def test_reports_may_be_missing(wide: Path, narrow: Path) -> None:
    (wide / "report.json").unlink()
    (narrow / "report.json").unlink()
    bundle = add_variant(wide, narrow, "cool")
    assert set(bundle.manifest.documents) == {"report.json", "cool_report.json"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"template": b'{"other": 1}'}, "another chat template than the bundle's"),
        ({"target": "rk3588"}, "its target is rk3588, the bundle's host"),
        ({"model": a_model(vocab_size=51)}, "its vocabulary size is 51, the bundle's 50"),
        ({"model": a_model(max_positions=64)}, "its longest context is 64, the bundle's 128"),
        ({"self_test": None}, "it holds no language model"),
        ({"verdicts": ()}, "what it costs in quality was not measured"),
        ({"verdicts": verdicts(0.3)}, r"did not pass its gate .FAIL kl_mean_nats 0\.3"),
    ],
)  # fmt: skip
def test_what_is_no_form_of_the_model_is_refused(wide: Path, tmp_path: Path, changes: dict, said: str) -> None:
    other, before = a_form(tmp_path / "other", b"o", **changes), listing(wide)
    with pytest.raises(BundleError, match=said) as caught:
        add_variant(wide, other, "cool")
    assert caught.value.exit_code == 2
    assert caught.value.where == str(other)
    assert listing(wide) == before
    assert set(os.listdir(tmp_path)) == {"wide", "other"}, "nothing half-written"


def test_the_same_form_again_and_one_with_variants_are_refused(wide: Path, narrow: Path, tmp_path: Path) -> None:
    same = a_form(tmp_path / "same", b"w" * 100)
    with pytest.raises(BundleError, match="the same model in the same form"):
        add_variant(wide, same, "cool")
    add_variant(narrow, same, "wide")
    with pytest.raises(BundleError, match="it holds variants itself"):
        add_variant(wide, narrow, "cool")


@pytest.mark.parametrize("name", ["", "Cool", "a_b", "../x", "1", "a" * 33, "cool\n"])
def test_names_that_are_none(wide: Path, narrow: Path, name: str) -> None:
    with pytest.raises(InputError, match="cannot be called"):
        add_variant(wide, narrow, name)


def test_a_name_that_is_taken_or_is_nobodys(wide: Path, narrow: Path) -> None:
    with pytest.raises(InputError, match="no variant 'cool'; it has none"):
        remove_variant(wide, "cool")
    add_variant(wide, narrow, "cool")
    with pytest.raises(InputError, match=r"has a variant 'cool' already.*remove-variant"):
        add_variant(wide, narrow, "cool")
    with pytest.raises(InputError, match="no variant 'warm'; it has cool"):
        remove_variant(wide, "warm")


def test_a_full_disk_leaves_the_bundle_as_it_was(wide: Path, narrow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = listing(wide)

    def full(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("chipwise.bundle.writer.shutil.copyfile", full)
    with pytest.raises(OutputError, match="no space left"):
        add_variant(wide, narrow, "cool")
    assert listing(wide) == before
    assert set(os.listdir(wide.parent)) == {"wide", "narrow"}


def test_a_manifest_that_names_a_file_nobody_added(tmp_path: Path, wide: Path) -> None:
    entry = next(iter(open_bundle(wide).manifest.files.values()))
    with pytest.raises(BundleError, match="named, but not added"), BundleWriter(tmp_path / "b") as writer:
        writer.commit(a_manifest(tensors={}, files={"weights": entry}))
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda v: replace(v, self_test=None),
        lambda v: replace(v, documents={"report.json": next(iter(v.files.values()))}),
        lambda v: replace(v, variants={"more": v}),
        lambda v: replace(v, files={"decoder": replace(v.files["decoder"], file="../x")}),
    ],
)
def test_a_manifest_with_a_variant_that_is_none(
    wide: Path, narrow: Path, spoil: Callable[[Manifest], Manifest]
) -> None:
    manifest = add_variant(wide, narrow, "cool").manifest
    wrong = replace(manifest, variants={"cool": spoil(manifest.variants["cool"])})
    with pytest.raises(ChipwiseError, match="variant cool"):
        wrong.check(where="m.json")


def test_quality_cost_in_words() -> None:
    assert str(quality_cost(verdicts())) == "KL 0.02 nats, 93.0% of next tokens, gate pass"
    assert quality_cost(verdicts()[:1]) is None
    unsure = replace(verdicts()[1], sure=False)
    assert quality_cost((verdicts()[0], unsure)) == QualityCost(0.02, 0.93, "unclear")
