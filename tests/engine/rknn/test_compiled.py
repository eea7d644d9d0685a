"""A pair that Rockchip's toolkit really compiled: its borders are those the session asks for."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType

import onnx_ir as ir
import pytest

from chipwise.check.infer import infer_types
from chipwise.engine.rknn import RknnEngine
from chipwise.model.decoder import GraphSpec, build_decoder
from chipwise.model.importer import load_model
from chipwise.model.rknn_file import read_rknn_file
from chipwise.rewrite.edit import inline_functions, lift_constants
from chipwise.toolchain import Environment, run_job
from chipwise.toolchain.rknn_build import MODEL, rknn_build_job
from tests.engine.conftest import MakeBoard
from tests.engine.rknn.computing import by_onnxruntime
from tests.model.decoder.random_models import write_folder
from tests.model.decoder.sessions import CONTEXT, check_session, golden


def _compile(environment: Environment, model: Path, path: Path, spec: GraphSpec) -> None:
    loaded = load_model(model)
    graph = build_decoder(loaded.config, loaded.weights, spec)
    inline_functions(graph)
    lift_constants(graph)  # the toolkit reads no Constant that holds a plain number
    infer_types(graph)
    ir.save(graph, path.with_suffix(".onnx"))
    job = rknn_build_job(path.with_suffix(".onnx"), config={"target_platform": "rk3588"})
    with run_job(environment, job) as result:
        shutil.copy(result.artifacts[MODEL], path)


@pytest.mark.slow
def test_a_compiled_pair_is_fed_and_read_as_the_portable_graphs_are(
    rknn: Environment, lite: ModuleType, board: MakeBoard, tmp_path: Path
) -> None:
    model = write_folder("llama", tmp_path / "hf")
    files = {role: tmp_path / f"{role}.rknn" for role in ("prefill", "decode")}
    _compile(rknn, model, files["prefill"], GraphSpec("prefill", CONTEXT, 1, 32, 32))
    _compile(rknn, model, files["decode"], GraphSpec("decode", CONTEXT, 1, 1, 1))
    for path in files.values():
        names = [tensor.name for tensor in read_rknn_file(path).inputs]
        lite.MODELS[path.read_bytes()] = by_onnxruntime(path.with_suffix(".onnx"), names)
    options = {"mask_value": -10000.0}
    session = RknnEngine(board("rk3588")).open(files, n_slots=3, max_context=CONTEXT, options=options)
    check_session(session, golden("llama"))
    handed = {array.dtype.name for made in lite.MADE for array in made.asked[-1][0]}
    assert handed == {"int64", "float32"}
    session.close()
