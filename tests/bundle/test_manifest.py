from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.bundle import EngineSpec, FileEntry, LogitSample, Manifest, SelfTest, TensorEntry
from chipwise.bundle.manifest import FORMAT_VERSION
from chipwise.errors import BundleError
from chipwise.model.scheme import FLOAT32
from chipwise.report import Verdict
from tests.bundle.fakes import INT4, a_manifest

DIGEST = "ab" * 32
FULL = a_manifest(
    files={"weights": FileEntry(DIGEST + ".bin", 100, DIGEST)},
    documents={"report.json": FileEntry("report.json", 2, DIGEST)},
    verdicts=(Verdict.judge("top1_agreement", 0.97, 0.95, "min"),),
)


def read(fields: object) -> Manifest:
    return Manifest.from_json(json.dumps(fields).encode(), where="m.json")


def changed(path: str, value: object) -> dict[str, Any]:
    fields = FULL.to_dict()
    place: Any = fields
    *parts, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    for part in parts:
        place = place[part]
    place[last] = value
    return fields


def test_round_trip() -> None:
    assert Manifest.from_json(FULL.to_json(), where="m.json") == FULL


def test_round_trip_without_what_may_lack() -> None:
    bare = replace(FULL, self_test=None, tensors={}, verdicts=(), documents={})
    assert read(bare.to_dict()) == bare
    assert bare.report_sha256 is None
    assert bare.passed


def test_a_verdict_on_nan_comes_back_as_failed() -> None:
    failed = replace(FULL, verdicts=(Verdict.judge("kl", float("nan"), 0.1, "max"),))
    back = Manifest.from_json(failed.to_json(), where="m.json")
    assert not back.passed
    assert back.verdicts[0].value != back.verdicts[0].value


def test_report_digest() -> None:
    assert FULL.report_sha256 == DIGEST


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"null", b"3", b"[]", b"{}"])
def test_what_is_no_manifest(data: bytes) -> None:
    with pytest.raises(BundleError, match=r"^m\.json: "):
        Manifest.from_json(data, where="m.json")


@pytest.mark.parametrize("version", [FORMAT_VERSION + 1, 999])
def test_a_newer_format_asks_to_upgrade_whatever_else_it_holds(version: int) -> None:
    with pytest.raises(BundleError, match=f"made by a newer chipwise .format {version}.*upgrade"):
        read({"format_version": version, "files": "another shape altogether"})


@pytest.mark.parametrize("version", [0, -1, "1", 1.5, True, None])
def test_a_version_that_is_none(version: object) -> None:
    with pytest.raises(BundleError, match="format_version"):
        read(changed("format_version", version))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("name", ""),
        ("name", 3),
        ("surprise", 1),
        ("engine/surprise", 1),
        ("engine/name", None),
        ("files/weights/bytes", -1),
        ("files/weights/bytes", "100"),
        ("files/weights/bytes", 100.0),
        ("files/weights/sha256", "AB" * 32),
        ("files/weights/sha256", "ab"),
        ("tensors/model.norm.weight/scheme/dtype", "int5"),
        ("tensors/model.norm.weight/scheme/surprise", 1),
        ("tensors/model.norm.weight/offset_bytes", -4),
        ("verdicts/0/direction", "about"),
        ("self_test/prompt", []),
        ("self_test/tokens", [-1]),
        ("self_test/tolerance", 0),
        ("self_test/tolerance", float("inf")),
        ("self_test/logits/0/value", float("nan")),
        ("documents/report.json/surprise", 1),
    ],
)
def test_a_wrong_field_is_named(path: str, value: object) -> None:
    with pytest.raises(BundleError, match="field") as caught:
        read(changed(path, value))
    assert path.split("/")[0] in caught.value.what


@pytest.mark.parametrize("field", ["name", "target", "engine", "model"])
def test_a_missing_field_is_named(field: str) -> None:
    fields = FULL.to_dict()
    del fields[field]
    with pytest.raises(BundleError, match=f"field {field}"):
        read(fields)


@pytest.mark.parametrize(
    "name",
    [
        "../weights.bin",
        "/etc/passwd",
        f"../{DIGEST}.bin",
        f"{DIGEST}/../../x",
        f"sub/{DIGEST}.bin",
        f"{DIGEST}.bin\n",
        f"{DIGEST}..",
        "cd" * 32 + ".bin",
        "",
        ".",
    ],
)
def test_a_stored_name_can_only_be_its_digest(name: str) -> None:
    with pytest.raises(BundleError, match="weights"):
        read(changed("files/weights/file", name))


@pytest.mark.parametrize("name", ["../report.json", "/tmp/report.json", ".hidden.json", "a/b.json", "report.json\n"])
def test_a_document_lies_beside_the_manifest(name: str) -> None:
    with pytest.raises(BundleError, match="document"):
        read(changed("documents", {name: {"file": name, "bytes": 1, "sha256": DIGEST}}))


def test_a_document_under_another_name() -> None:
    with pytest.raises(BundleError, match=r"document report\.json has the name"):
        read(changed("documents/report.json/file", "other.json"))


def test_a_tensor_in_no_file() -> None:
    with pytest.raises(BundleError, match="tensor w lies in 'elsewhere'"):
        read(replace(FULL, tensors={"w": TensorEntry(FLOAT32, "elsewhere", 0, 4)}).to_dict())


def test_a_tensor_past_the_end_of_its_file() -> None:
    with pytest.raises(BundleError, match="tensor w ends at byte 101 of 100"):
        read(replace(FULL, tensors={"w": TensorEntry(FLOAT32, "weights", 97, 4)}).to_dict())


def test_a_tensor_in_a_vendors_container_has_no_place() -> None:
    opaque = replace(FULL, tensors={"w": TensorEntry(INT4, "weights")})
    assert read(opaque.to_dict()) == opaque


SHORT = st.text("version_ab新\0", max_size=4)
PLAIN = st.none() | st.booleans() | st.integers() | SHORT


@given(st.recursive(PLAIN, lambda x: st.lists(x, max_size=3) | st.dictionaries(SHORT, x, max_size=3), max_leaves=5))
def test_any_json_is_refused_cleanly(fields: object) -> None:
    with pytest.raises(BundleError):
        read(fields)


@given(st.sampled_from(sorted(FULL.to_dict())), st.integers() | st.text() | st.lists(st.integers()))
def test_any_field_of_another_type_is_refused_cleanly(field: str, value: object) -> None:
    try:
        back = read(FULL.to_dict() | {field: value})
    except BundleError:
        return
    assert back.to_dict()[field] == value


def test_context_of_a_self_test() -> None:
    assert SelfTest((1, 2, 3), (4, 5), (LogitSample(0, 1, 0.5),), 0.1).context == 5


@pytest.mark.parametrize(
    ("options", "emulates"), [({}, None), ({"fuse_qdq": True}, None), ({"fuse_qdq": False}, "rk3588")]
)
def test_a_graph_that_keeps_its_rounding_emulates_its_target(options: dict[str, bool], emulates: str | None) -> None:
    assert a_manifest(target="rk3588", engine=EngineSpec("onnxruntime", options)).emulates == emulates
