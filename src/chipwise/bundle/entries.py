"""The parts of a manifest: its files, tensors, engine, model and self-test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field, with_config

from chipwise.model.scheme import TensorScheme

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Role = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,63}$")]
Count = Annotated[int, Field(ge=0)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
TokenIds = Annotated[tuple[Count, ...], Field(min_length=1)]

_T = TypeVar("_T")


def strict(cls: type[_T]) -> type[_T]:
    """Have pydantic refuse unknown fields and convert nothing when it reads a dataclass."""
    return with_config(ConfigDict(extra="forbid", strict=True, ser_json_inf_nan="constants"))(cls)


@strict
@dataclass(frozen=True)
class FileEntry:
    """One file.

    Attributes:
        file: Its name: the digest and a suffix in ``files/``; for a document, its own name beside the manifest.
        bytes: Its size.
        sha256: Digest of its content, in hex.
    """

    file: str
    bytes: Count
    sha256: Sha256


@strict
@dataclass(frozen=True)
class TensorEntry:
    """One weight: how it is stored, and where.

    Attributes:
        scheme: How its values are stored.
        role: The role of the file that holds them.
        offset_bytes: Where its values start in that file; None inside a vendor's container.
        bytes: Bytes its values take, without scales and zero points; None inside a vendor's container.
    """

    scheme: TensorScheme
    role: Role
    offset_bytes: Count | None = None
    bytes: Count | None = None


@strict
@dataclass(frozen=True)
class EngineSpec:
    """The runtime that opens the files.

    Attributes:
        name: Its name in the registry, e.g. ``onnxruntime``.
        options: Its own settings.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)


@strict
@dataclass(frozen=True)
class ModelInfo:
    """The model the bundle was built from.

    Attributes:
        config: The architecture, as ``DecoderConfig.to_dict`` has it.
        source_kind: ``huggingface``, ``gguf`` or ``onnx``.
        source_name: A short name for people.
        licence: The licence the model says it has; None if it says nothing.
    """

    config: dict[str, Any]
    source_kind: str
    source_name: str
    licence: str | None = None


@strict
@dataclass(frozen=True)
class LogitSample:
    """One logit the runtime must come close to: of ``token``, after ``step`` generated tokens."""

    step: Count
    token: Count
    value: Finite


@strict
@dataclass(frozen=True)
class SelfTest:
    """A short run with a known outcome.

    Attributes:
        prompt: Token ids fed first.
        tokens: The greedy choice after the prompt and after each of these tokens but the last.
        logits: Some of the logits on the way.
        tolerance: The largest difference allowed, in logits. A token may differ from the greedy choice where
            the two are closer than this.
    """

    prompt: TokenIds
    tokens: TokenIds
    logits: tuple[LogitSample, ...]
    tolerance: Annotated[Finite, Field(gt=0)]

    @property
    def context(self) -> int:
        """Tokens a slot must hold for it."""
        return len(self.prompt) + len(self.tokens)


@strict
@dataclass(frozen=True)
class GraphTest:
    """A run of a plain graph with a known outcome; its arrays are files of the bundle.

    Attributes:
        tolerance: The largest difference allowed, as a share of an output's largest magnitude. What is asked of each
            channel follows from it; see ``output_channels``.
        shapes: How many samples are run: one of each shape that the graph was compiled for.
    """

    tolerance: Annotated[Finite, Field(gt=0)]
    shapes: Annotated[int, Field(ge=1, le=1024)] = 1


@strict
@dataclass(frozen=True)
class Fallback:
    """A second engine, which goes on where the first one computes nonsense. It runs on the CPU.

    Its files have the roles that the engine knows, behind ``fallback.``.

    Attributes:
        engine: The runtime.
        precision: How its weights are stored.
        self_test: What is run when it is opened.
    """

    engine: EngineSpec
    precision: Literal["fp16", "fp32"]
    self_test: SelfTest
