"""GivenFile: a model's file as it is, for an engine that runs it so; nothing of it is written anew."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chipwise.build.options import BuildOptions
from chipwise.build.stored import StoredWeight
from chipwise.bundle import BundleWriter, EngineSpec, TensorEntry
from chipwise.engine import Session
from chipwise.engine.registry import get_engine
from chipwise.errors import InputError
from chipwise.files import require_free, writing
from chipwise.model.config import DecoderConfig
from chipwise.model.importer.gguf_header import read_gguf_header
from chipwise.model.importer.gguf_schemes import scheme_of
from chipwise.model.model import Model
from chipwise.quant.recipe import Recipe
from chipwise.target import Target

LLAMA_CPP = "llama.cpp"
ROLE = "gguf"
"""Role of the file, as the engine knows it."""

_HALF_BYTES = 2
# The weights are the same on both sides: what differs is activations in 8 bits and KV in float16.
AS_GIVEN = Recipe(
    "gguf", "gguf", weight_bits=8, group_size=None, per_channel=True, activation_bits=16, head_bits=8, embed_bits=8
)
"""The recipe of a file that keeps its own precision. It is judged as 8 bits are."""


@dataclass(frozen=True)
class GivenFile:
    """A candidate that an engine opens as it came.

    Attributes:
        path: The file. It stays where it is.
        engine: The engine's name.
        options: What the engine must know of it.
        context: Tokens it can hold; None, as its cache is as long as it is asked for.
        emulates: Always None: it is what is deployed.
    """

    path: Path
    engine: str
    options: Mapping[str, Any] = field(default_factory=dict)
    context: int | None = None
    emulates: str | None = None

    @property
    def weights_bytes(self) -> int:
        """Size of the file."""
        return self.path.stat().st_size

    def open(self, *, n_slots: int, max_context: int, threads: int, yields: bool = False) -> Session:
        """Open it in its engine; its threads sleep between steps, whether it takes turns with another or not."""
        del yields
        options = {**self.options, "threads": threads}
        return get_engine(self.engine).open(
            {ROLE: self.path}, n_slots=n_slots, max_context=max_context, options=options
        )

    def stored(self) -> dict[str, StoredWeight]:
        """Its tensors by GGUF's names."""
        found = {}
        for tensor in read_gguf_header(self.path).tensors.values():
            scheme, values = scheme_of(tensor), math.prod(tensor.shape)
            entry = TensorEntry(scheme, ROLE, tensor.offset, values * scheme.bits // 8)
            found[tensor.name] = StoredWeight(entry, values, {tensor.offset: tensor.nbytes})
        return found

    def add_to(self, writer: BundleWriter) -> EngineSpec:
        """Put a copy into a bundle, byte for byte.

        Raises:
            OutputError: The disk does not take it.
        """
        copy = writer.scratch(f"model.{ROLE}")
        require_free(copy, self.weights_bytes)
        with writing(copy, need_bytes=self.weights_bytes):
            shutil.copyfile(self.path, copy)
        writer.add_file(ROLE, copy, f".{ROLE}")
        return EngineSpec(self.engine, dict(self.options))


def given_file(model: Model, config: DecoderConfig, engine: str) -> GivenFile:
    """A model's file, with what its engine plans memory by."""
    return GivenFile(model.source.path, engine, {"kv_token_bytes": config.kv_bytes(1, _HALF_BYTES)})


def given_recipes(options: BuildOptions, target: Target, model: Model) -> tuple[Recipe, ...]:
    """The one recipe of a build whose engine the user named.

    Raises:
        InputError: The engine does not take such a file, the target, or another precision.
        DependencyError: The engine's package is not installed.
    """
    if model.source.kind != "gguf":
        raise InputError(
            f"the engine {options.engine} runs .gguf files", where=options.model,
            remedy="give one, or leave --engine out",
        )  # fmt: skip
    if target.engine != "onnxruntime":
        raise InputError(
            f"the engine {options.engine} runs on CPUs, and {target.name} is a target of {target.engine}",
            where="--engine", remedy="take a CPU as the target, e.g. host",
        )  # fmt: skip
    if options.recipe != "auto":
        raise InputError(
            f"a file that is run as it is keeps its own precision, not {options.recipe}", where="--recipe",
            remedy="leave it out, or leave --engine out",
        )  # fmt: skip
    get_engine(str(options.engine))
    return (AS_GIVEN,)
