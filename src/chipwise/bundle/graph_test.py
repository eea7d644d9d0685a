"""The self-test of a bundle that holds a plain graph: inputs with the outputs they gave when it was built."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from chipwise.bundle.entries import GraphTest
from chipwise.bundle.output_channels import channel_faults
from chipwise.engine.graph_session import Arrays, GraphSession
from chipwise.engine.known_fault import explained
from chipwise.errors import BundleError
from chipwise.files import read_bounded

# One sample of a large image model is a few megabytes.
_MAX_BYTES = 256 << 20
_REMEDY = "the runtime does not compute here what it computed at build time: update it, or build for this machine"


def record_graph_test(session: GraphSession, feed: Arrays, *, tolerance: float) -> tuple[GraphTest, bytes, bytes]:
    """Run a sample and keep what came out.

    Args:
        session: The graph as the target will run it.
        feed: The inputs.
        tolerance: The largest difference allowed on another machine, as a share of an output's largest magnitude.

    Returns:
        The entry of the manifest, and the content of the files with inputs and outputs.

    Raises:
        BundleError: The outputs are of no use: all zero, or not finite.
        EngineError: The runtime failed.
    """
    return keep_graph_test(feed, session.run(feed), tolerance=tolerance)


def keep_graph_test(feed: Arrays, outputs: Arrays, *, tolerance: float) -> tuple[GraphTest, bytes, bytes]:
    """Keep a sample and what came of it elsewhere, e.g. in a simulator; see ``record_graph_test``.

    Raises:
        BundleError: The outputs are of no use: all zero, or not finite.
    """
    _check_sane(outputs, where="self-test")
    return GraphTest(tolerance), _packed(feed), _packed(outputs)


def run_graph_test(session: GraphSession, test: GraphTest, inputs: Path, outputs: Path, *, where: str) -> None:
    """Run the recorded inputs and compare.

    Args:
        session: The open graph.
        test: What the build recorded.
        inputs: The file with its inputs.
        outputs: The file with the outputs they gave.
        where: The bundle's path, for messages.

    Raises:
        BundleError: An output is missing, of another shape, not finite, all zero although it was not, or differs by
            more than the tolerance, or one of its channels is dead or of another gain; or a file holds no arrays.
        EngineError: The runtime failed.
    """
    expected = _unpacked(outputs)
    found = session.run(_unpacked(inputs))
    # An index or a flag flips where two numbers nearly tie; it counts where there are no numbers to compare.
    numbers = any(array.dtype.kind == "f" for array in expected.values())
    for name, wanted in expected.items():
        if name not in found:
            raise _failure(f"the graph has no output {name!r}", where)
        ours = np.asarray(found[name])
        _check_output(session, name, wanted, ours, where)
        if wanted.dtype.kind == "f" or not numbers:
            _check_distance(session, name, wanted, ours, test.tolerance, where)
        if wanted.dtype.kind == "f":
            _check_channels(session, name, wanted, ours, test.tolerance, where)


def _check_output(
    session: GraphSession, name: str, wanted: npt.NDArray[Any], found: npt.NDArray[Any], where: str
) -> None:
    if found.shape != wanted.shape:
        raise _failure(f"the output {name} is {list(found.shape)} instead of {list(wanted.shape)}", where)
    if not np.isfinite(found).all():
        raise _failure(
            f"{int((~np.isfinite(found)).sum())} of {found.size} values of {name} are NaN or infinite"
            + explained(session, "not_finite"),
            where,
        )
    if wanted.any() and not found.any():
        raise _failure(
            f"the output {name} is all zeros: a kernel of the runtime does nothing for this model"
            + explained(session, "zeros"),
            where,
        )


def _check_distance(
    session: GraphSession,
    name: str,
    wanted: npt.NDArray[Any],
    found: npt.NDArray[Any],
    tolerance: float,
    where: str,
) -> None:
    ours, theirs = found.astype(np.float64), wanted.astype(np.float64)
    largest, scale = float(np.abs(ours - theirs).max(initial=0.0)), float(np.abs(theirs).max(initial=0.0))
    if not largest <= tolerance * scale:
        raise _failure(
            f"the output {name} differs by {largest:.3g} of {scale:.3g} (tolerance {tolerance:g} of it)"
            + explained(session, "differs"),
            where,
        )


def _check_channels(
    session: GraphSession,
    name: str,
    wanted: npt.NDArray[Any],
    found: npt.NDArray[Any],
    tolerance: float,
    where: str,
) -> None:
    """A small channel may be lost within the tolerance of the whole."""
    faults = list(channel_faults(wanted, found, tolerance=tolerance))
    if faults:
        others = f"; so it is with {len(faults) - 1} more" if len(faults) > 1 else ""
        raise _failure(
            f"channel {faults[0].channel} of the output {name} {faults[0]}{others}"
            + explained(session, "zeros" if faults[0].dead else "differs"),
            where,
        )


def _check_sane(outputs: Arrays, where: str) -> None:
    if not any(array.any() for array in outputs.values()):
        raise _failure("every output is all zeros", where)
    for name, array in outputs.items():
        if not np.isfinite(array).all():
            raise _failure(f"the output {name} holds NaN or infinity", where)


def _packed(arrays: Arrays) -> bytes:
    stream = io.BytesIO()
    # By position: a name may hold what a member of a zip file must not.
    np.savez_compressed(stream, np.array(list(arrays), dtype=np.str_), *arrays.values())
    return stream.getvalue()


def _unpacked(path: Path) -> dict[str, npt.NDArray[Any]]:
    data = read_bounded(path, _MAX_BYTES, error=BundleError, remedy="copy or build the bundle again")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            return {str(name): file[f"arr_{i}"] for i, name in enumerate(file["arr_0"], start=1)}
    except (ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as e:
        raise BundleError(f"no arrays ({e})", where=str(path), remedy="copy or build the bundle again") from e


def _failure(what: str, where: str) -> BundleError:
    return BundleError(f"the self-test failed: {what}", where=where, remedy=_REMEDY)
