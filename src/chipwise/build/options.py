"""BuildOptions: what the user asks of a build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

AUTO = "auto"


@dataclass(frozen=True)
class BuildOptions:
    """What to build, for what, and how it is judged.

    Attributes:
        model: A folder, a file, or ``hf:org/name``.
        target: Name of the target.
        out: Where the bundle shall lie.
        recipe: A recipe's name, or ``auto``: the smallest the target takes that passes the gate.
        queries: The user's queries, for calibration and, without a suite, for verification; None takes general ones.
        samples: The inputs of an ONNX graph, a file or a folder of .npy or .npz files; None takes queries where the
            graph reads tokens, else drawn inputs.
        dims: Sizes of an ONNX graph's symbolic dimensions by name; samples tell them too.
        shape_sets: Several sizes to be compiled into one file, each of all dimensions that are symbolic; empty for one
            size, which ``dims`` then tells.
        fixed: Inputs of an ONNX graph that get one value for good, by name.
        suite: Cases with keywords to verify on; None verifies on queries.
        max_cases: Cases verified at most.
        max_context: Tokens the graphs must hold; None takes the model's, at most 8192.
        gate: Thresholds set by the user, by name.
        threads: Threads of the engine; 0 for one a core.
        overwrite: Whether to replace a bundle at ``out``.
        emulate: Whether to emulate a chip even if its toolchain is installed.
        repair: Whether to look for the cheapest change that makes a recipe pass which fails as it is.
        embeddings: Folder of a sentence-embedding model for semantic drift; None takes MiniLM if it is installed.
        images: A JSON file of how pictures become inputs, by input, for serving; None keeps none in the bundle.
        audio: The same of recordings.
        fallback: How the weights of a second engine on the CPU are stored, which goes on where the first one computes
            nonsense; None for no such engine.
        engine: Runs the model's file as it is, in place of what the target has; None builds for the target's own.
        job_timeout_s: How long one job of the chip's toolchain may take, in seconds.
        cache: Whether the reference's answers are kept, and read if they are there.
    """

    model: str
    target: str
    out: Path
    recipe: str = AUTO
    queries: Path | None = None
    samples: Path | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    shape_sets: tuple[Mapping[str, int], ...] = ()
    fixed: Mapping[str, float] = field(default_factory=dict)
    suite: Path | None = None
    max_cases: int = 100
    max_context: int | None = None
    gate: Mapping[str, float] = field(default_factory=dict)
    threads: int = 0
    overwrite: bool = False
    emulate: bool = False
    repair: bool = True
    embeddings: Path | None = None
    images: Path | None = None
    audio: Path | None = None
    fallback: Literal["fp16", "fp32"] | None = None
    engine: Literal["llama.cpp"] | None = None
    # A language model of 135 million parameters takes 5 minutes a graph.
    job_timeout_s: float = 4 * 3600.0
    cache: bool = True
