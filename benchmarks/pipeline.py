"""Does a pipeline run as fast as its slowest stage would alone?

    python -m benchmarks.pipeline [--requests N] [--rounds N]

A text detector (rapidocr's, fetched once) takes camera pictures as JPEG: prepare decodes, resizes and normalizes one,
run is ONNX Runtime with one thread, write packs the output. These are the stages that `chipwise serve` puts behind
/v1/infer, without HTTP. It needs two cores to itself. Writes results/pipeline.json.
"""

from __future__ import annotations

import argparse
import io
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.chip_inputs import SIDE, text_images
from benchmarks.chip_models import chip_models
from benchmarks.machine import load_average, today
from benchmarks.pipeline_results import PipelineResult, PipelineRound
from benchmarks.results import RESULTS, save
from chipwise.engine.onnxruntime.graph import OnnxGraphSession
from chipwise.serve.inference.image import GivenImages
from chipwise.serve.inference.image_settings import ImageSettings
from chipwise.serve.inference.stages import Ask, inference_stages
from chipwise.serve.pipeline.job import Outcome
from chipwise.serve.pipeline.pipeline import Pipeline
from chipwise.serve.pipeline.stage import Stage
from chipwise.serve.request.events import Failure
from chipwise.target.host.machine import look

CAMERA = (1280, 960)
GOAL, WARM_UP = 0.95, 4


def pictures(count: int) -> list[bytes]:
    """Pages of figures as a camera sends them."""
    files = []
    for page in text_images(count)[:, 0]:
        pixels = ((page.transpose(1, 2, 0) + 1) * 127.5).round().astype(np.uint8)
        out = io.BytesIO()
        Image.fromarray(pixels).resize(CAMERA, Image.Resampling.BICUBIC).save(out, "JPEG", quality=90)
        files.append(out.getvalue())
    return files


def asks(session: OnnxGraphSession, files: Sequence[bytes], count: int) -> list[Ask]:
    """Requests of one picture each, in turn."""
    (spec,), settings = session.inputs, ImageSettings(size=[SIDE, SIDE], mean=[0.5], std=[0.5])
    outputs = dict.fromkeys(session.output_names, True)
    given = [GivenImages(spec.name, [file], settings, "inputs[0]").checked(spec) for file in files]
    return [Ask(None, [given[i % len(given)]], outputs) for i in range(count)]


def in_one_thread(stages: Sequence[Stage], values: Sequence[Any]) -> tuple[float, list[Any]]:
    """Stages one after the other for each value: requests a second, and what came of each."""
    buffers = [[stage.buffer() for _ in values] for stage in stages]
    results = []
    started_s = time.perf_counter()
    for i, value in enumerate(values):
        found = value
        for stage, own in zip(stages, buffers, strict=True):
            (found,) = stage.work([found], [own[i]])
        results.append(found)
    return len(values) / (time.perf_counter() - started_s), results


def side_by_side(stages: Sequence[Stage], values: Sequence[Any]) -> float:
    """The pipeline with all requests waiting: requests a second, from the end of the warm-up to the last answer."""
    pipeline = Pipeline("benchmark", stages, max_waiting=len(values) + WARM_UP)
    told_s: list[float] = []
    failures: list[Failure] = []
    complete = threading.Event()

    def tell(outcome: Outcome) -> None:
        told_s.append(time.perf_counter())
        failures.extend([outcome] if isinstance(outcome, Failure) else [])
        if len(told_s) == len(values) + WARM_UP:
            complete.set()

    for value in [*values[:WARM_UP], *values]:
        pipeline.submit(value, tell)
    pipeline.start()
    complete.wait()
    pipeline.stop(10.0)
    if failures:
        raise failures[0].error
    return len(values) / (told_s[-1] - told_s[WARM_UP - 1])


def measure(stages: Sequence[Stage], values: Sequence[Ask]) -> PipelineRound:
    """Each stage alone, all in one thread, and all side by side."""
    busy = load_average()
    alone, found = {}, list(values)
    for stage in stages:
        alone[stage.name], found = in_one_thread([stage], found)
    one_by_one, _ = in_one_thread(stages, values)
    return PipelineRound(alone, one_by_one, side_by_side(stages, values), busy)


def main() -> int:
    """Run and save; 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description="A pipeline beside its slowest stage.")
    parser.add_argument("--requests", type=int, default=60, help="requests of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "pipeline.json", help="where the result goes")
    arguments = parser.parse_args()
    model = chip_models()["text_detector"]()
    session = OnnxGraphSession(model.source, threads=1)
    values = asks(session, pictures(8), arguments.requests)
    stages = inference_stages(model.name, session, session.inputs)
    in_one_thread(stages, values[:WARM_UP])
    rounds = tuple(measure(stages, values) for _ in range(arguments.rounds))
    session.close()
    ratio = statistics.median(one.pipeline / min(one.alone.values()) for one in rounds)
    speedup = statistics.median(one.pipeline / one.one_by_one for one in rounds)
    machine, words = look(), f"{model.words.split(',')[0]}, 1x3x{SIDE}x{SIDE}"
    picture = f"a JPEG of {CAMERA[0]} x {CAMERA[1]} (drawn figures)"
    save(
        PipelineResult(
            today(), machine.cpu.model, machine.threads, words, picture, arguments.requests, rounds, ratio, speedup,
            GOAL, ratio >= GOAL,
        ),
        arguments.out,
    )  # fmt: skip
    for one in rounds:
        shown = ", ".join(f"{name} {value:.1f}" for name, value in one.alone.items())
        print(f"{shown}; one thread {one.one_by_one:.1f}, pipeline {one.pipeline:.1f} a second")
    verdict = "met" if ratio >= GOAL else "MISSED"
    print(f"{ratio:.3f} of the slowest stage, goal {GOAL}: {verdict}; {arguments.out} written")
    return 0 if ratio >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
