from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from chipwise.bundle import EngineSpec, ModelInfo, TensorEntry
from chipwise.cli.inspect import scheme_lines
from chipwise.cli.inspect_rknn import show_rknn
from chipwise.cli.main import main
from chipwise.model.rknn_file import read_rknn_file
from chipwise.model.scheme import FLOAT32, TensorScheme
from chipwise.report import Verdict
from tests.bundle.fakes import INT4, a_manifest, write_bundle


def test_it_shows_all_that_matters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = (Verdict.judge("top1_agreement", 0.9, 0.95, "min"),)
    built = write_bundle(tmp_path / "b", manifest=a_manifest(verdicts=verdicts))
    assert main(["inspect", str(built)]) == 0
    out = capsys.readouterr().out
    for text in (
        "name       tiny",
        "target     host",
        "engine     fake (threads=2)",
        "model      Tiny (llama, from gguf)",
        "licence    apache-2.0",
        "KB  weights",
        "1 x uint4 group 32, asymmetric, float32 scales",
        "1 x float32",
        "FAIL top1_agreement 0.9 (needs >= 0.95)",
        "report     sha256 ",
        "6 prompt tokens, 3 greedy tokens, 16 logits within 0.5",
    ):
        assert text in out


def test_it_says_what_is_not_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = a_manifest(
        model=ModelInfo({}, "onnx", "net"), engine=EngineSpec("fake"), tensors={}, self_test=None, verdicts=()
    )
    assert main(["inspect", str(write_bundle(tmp_path / "b", manifest=bare))]) == 0
    out = capsys.readouterr().out
    for text in ("none stated by the model", "unknown architecture", "none listed", "not verified", "self test  none"):
        assert text in out


def test_json_is_the_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built = write_bundle(tmp_path / "b")
    assert main(["inspect", str(built), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((built / "manifest.json").read_bytes())


@pytest.mark.parametrize("spoil", ["nothing there", "altered"])
def test_a_bad_bundle_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spoil: str
) -> None:
    place = tmp_path / "b"
    if spoil == "altered":
        (write_bundle(place) / "report.json").write_bytes(b'{"fine": trun}')
    assert main(["inspect", str(place)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_schemes_are_summed_and_ordered_by_bytes() -> None:
    int8 = TensorScheme(8, "int8", axis=0, scale_dtype="float32")
    whole = TensorScheme(8, "int8", scale_dtype="float32")
    lines = scheme_lines(
        [
            TensorEntry(FLOAT32, "w", 0, 1_000_000),
            TensorEntry(INT4, "w", 1_000_000, 2_000_000),
            TensorEntry(replace(INT4, as_given=True), "w", 3_000_000, 3_000_000),
            TensorEntry(INT4, "w", 1_000_000, 2_000_000),
            TensorEntry(int8, "w"),
            TensorEntry(whole, "w", 6_000_000, 500_000),
        ]
    )
    assert [" ".join(line.split()) for line in lines] == [
        "3.000 MB 1 x uint4 group 32, asymmetric, float32 scales, values as the model came with them",
        "2.000 MB 2 x uint4 group 32, asymmetric, float32 scales",
        "1.000 MB 1 x float32",
        "0.500 MB 1 x int8 per tensor, symmetric, float32 scales",
        "size unknown 1 x int8 per channel, symmetric, float32 scales",
    ]


def test_an_emulated_bundle_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    emulated = a_manifest(target="rk3588", engine=EngineSpec("fake", {"fuse_qdq": False}))
    assert main(["inspect", str(write_bundle(tmp_path / "b", manifest=emulated))]) == 0
    assert "target     rk3588 (its arithmetic emulated by the engine, not compiled for it)" in capsys.readouterr().out


@pytest.mark.parametrize("missing", [False, True])
def test_the_lines_of_tensors_add_up_to_the_weights_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], missing: bool
) -> None:
    whole = a_manifest()
    tensors = dict(whole.tensors)
    if missing:
        del tensors["model.norm.weight"]
    assert main(["inspect", str(write_bundle(tmp_path / "b", manifest=replace(whole, tensors=tensors)))]) == 0
    said = "     0.036 KB  scales, zero_points, small constants and padding beside them"
    assert (said in capsys.readouterr().out) is missing


RKNN = Path(__file__).parent.parent / "model" / "rknn" / "awkward_rk3566_fp16.rknn"


def test_a_rknn_file_shows_its_borders_and_what_runs_on_the_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(RKNN)]) == 0
    lines = capsys.readouterr().out.splitlines()
    for line in (
        "target     rk3566",
        "toolkit    2.5.0",
        "inputs     ids  1x16 int64",
        "outputs    vals  1x16x4 float16",
        "operators  5 on the NPU, 7 on the CPU",
        "               1 x Erf  on the CPU: Erf:erf",
        "               2 x Conv",
        "crossing   5 tensors, 2176 bytes between units",
        "file           26.403 KB",
    ):
        assert line in lines


def test_a_rknn_file_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(RKNN), "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert fields["targets"] == ["rk3566"]
    assert fields["operators"][0] == {"type": "Gather", "name": "Gather:embed", "unit": "cpu"}


def test_a_rknn_file_of_another_format_says_what_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(RKNN.read_bytes())
    data[8] = 7
    (tmp_path / "x.rknn").write_bytes(data)
    assert main(["inspect", str(tmp_path / "x.rknn")]) == 0
    out = capsys.readouterr().out
    assert "operators  unknown: the tables of format version 7 are not known" in out
    assert "inputs     ids  1x16 type unknown" in out


def test_what_little_is_known_of_a_rknn_file_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    file = read_rknn_file(RKNN)
    odd = tuple(replace(one, bytes=None) for one in file.crossings or ())
    show_rknn(replace(file, graphs=3, inputs=(), targets=(), crossings=odd, internal_bytes=None), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    for line in (
        "target     none stated",
        "inputs     none",
        "graphs     3, one for each input shape; the first is shown",
        "crossing   5 tensors, 0 bytes between units, the size of 5 unknown",
        "internal   unknown",
    ):
        assert line in lines


def test_a_rknn_file_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path / "x.rknn")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_a_bad_rknn_file_is_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.rknn").write_bytes(RKNN.read_bytes()[:5000])
    assert main(["inspect", str(tmp_path / "x.rknn")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_a_name_in_a_file_cannot_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.rknn").write_bytes(RKNN.read_bytes().replace(b"Erf:erf", b"Erf:\x1b[2"))
    assert main(["inspect", str(tmp_path / "x.rknn")]) == 0
    assert "\x1b" not in capsys.readouterr().out
