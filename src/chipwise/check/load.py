"""The graph of a model, read for checking: weights stay on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx_ir as ir
from google.protobuf.message import DecodeError

from chipwise.check.fixed_inputs import fix_inputs
from chipwise.check.infer import infer_types
from chipwise.check.put_in_order import put_in_order
from chipwise.errors import GraphError


def load_graph(path: Path, fixed: Mapping[str, float] | None = None) -> ir.Model:
    """Read an ONNX file, put it in order and infer its types; weights are mapped when someone looks at them.

    Args:
        path: The file.
        fixed: Inputs that shall be constants, and their value.

    Raises:
        GraphError: The file is no ONNX file, or its graph is broken.
        InputError: An input cannot be fixed so.
    """
    try:
        model = ir.load(path)
    except OSError as e:
        raise GraphError(f"cannot read the graph ({e.strerror or e})", where=str(path)) from e
    except (DecodeError, ir.serde.SerdeError, ValueError, KeyError, TypeError) as e:
        raise GraphError(
            f"no valid ONNX graph ({' '.join(str(_root(e)).split())})",
            where=str(path),
            remedy="export the model again",
        ) from e
    put_in_order(model)
    fix_inputs(model, fixed or {})
    infer_types(model)
    return model


def _root(error: BaseException) -> BaseException:
    """What an error goes back to: onnx-ir wraps one in another for every level of the graph."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
