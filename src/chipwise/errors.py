"""The one tree of exceptions: each says what is wrong, where, and what to do about it."""

from __future__ import annotations

from typing import Literal

__all__ = [
    "BundleError",
    "ChipwiseError",
    "DeadlineError",
    "DependencyError",
    "EngineDownError",
    "EngineError",
    "EngineLostError",
    "GateFailedError",
    "GraphError",
    "InputError",
    "ModelFormatError",
    "OutputError",
    "OverloadedError",
    "PortInUseError",
    "QueryFileError",
    "RecordError",
    "RequestError",
    "RewriteError",
    "ToolchainError",
    "UnavailableError",
    "UnknownArchitectureError",
    "UnknownTargetError",
]


class ChipwiseError(Exception):
    """Something broke (exit code 3). All errors of chipwise derive from this one.

    Attributes:
        what: What is wrong, in a few words, with the value that was found.
        where: File, tensor, node or field it was found in, if there is one.
        remedy: What the user can do about it, if anything.
    """

    exit_code = 3

    def __init__(self, what: str, *, where: str | None = None, remedy: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        """One line: where, what, what to do."""
        text = f"{self.where}: {self.what}" if self.where else self.what
        text = f"{text}; {self.remedy}" if self.remedy else text
        return " ".join(text.split())


class EngineError(ChipwiseError):
    """A runtime could not load, run or agree with itself."""


class EngineLostError(EngineError):
    """The process of an engine ended or hung, and all that its slots held is gone."""


class EngineDownError(EngineLostError):
    """The process of an engine is lost, and the one after it does not come: nothing was asked of it."""


class RecordError(EngineError):
    """A record of a model's answers is damaged, or of other steps than those that are taken now."""


Shortage = Literal["queue", "bodies", "board"]
"""What a server is short of: places to wait in, memory for bodies that are being sent, or what its board can bear."""


class OverloadedError(ChipwiseError):
    """The server has as many requests as it takes; a later try may succeed (HTTP 429).

    Attributes:
        retry_after_s: When to try again.
        shortage: What there is too little of.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        remedy: str | None = None,
        retry_after_s: int = 1,
        shortage: Shortage = "queue",
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.retry_after_s = retry_after_s
        self.shortage = shortage


class DeadlineError(ChipwiseError):
    """A request's deadline passed before its answer was complete (HTTP 504)."""


class UnavailableError(ChipwiseError):
    """The server takes no requests: it is shutting down or broken (HTTP 503)."""


class RewriteError(ChipwiseError):
    """A pass changed the outputs beyond its tolerance, or left an invalid graph."""


class ToolchainError(ChipwiseError):
    """A vendor's toolchain failed to install, or a job of it failed, hung, aborted, or left no artifact.

    Attributes:
        log_tail: The last lines the tool wrote, oldest first.
    """

    def __init__(
        self, what: str, *, where: str | None = None, remedy: str | None = None, log_tail: tuple[str, ...] = ()
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.log_tail = log_tail


class GateFailedError(ChipwiseError):
    """The answer is no: a gate failed or a check found errors (exit code 1)."""

    exit_code = 1


class InputError(ChipwiseError):
    """The user's input is wrong (exit code 2)."""

    exit_code = 2


class DependencyError(InputError):
    """An optional package that this command needs is not installed."""


class ModelFormatError(InputError):
    """A model file is truncated, incomplete, or not of the format it claims."""


class UnknownArchitectureError(ModelFormatError):
    """The model's architecture is none that chipwise writes."""


class GraphError(ModelFormatError):
    """An ONNX graph is invalid or holds what cannot be converted."""


class UnknownTargetError(InputError):
    """No target of that name is in the catalogue."""


class QueryFileError(InputError):
    """A query or suite file is empty, in the wrong encoding, or malformed."""


class BundleError(InputError):
    """A bundle is incomplete, altered, of another format version, or fails its self-test."""


class OutputError(InputError):
    """The output folder cannot be written: it exists, is read-only, or the disk is full."""


class PortInUseError(InputError):
    """The port the server should listen on is taken."""


class RequestError(InputError):
    """A request to the server asks for something that cannot be done (HTTP 400).

    Attributes:
        code: The machine-readable code of OpenAI's error object, e.g. ``context_length_exceeded``.
        param: The request field that is wrong, if one is.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        remedy: str | None = None,
        code: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.code = code
        self.param = param
