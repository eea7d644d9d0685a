"""Answers chipwise over a socket it inherited: a JSON header of types and shapes, then each array's bytes.

A runner imports it from its own folder; it imports nothing of chipwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np


def answer_calls(link: int, function: Callable[[list[Any]], list[Any]]) -> None:
    """Say that the result is written, then answer each call by a function of arrays until chipwise hangs up."""
    connection = Connection(link)
    connection.send_bytes(b"ready")
    while True:
        try:
            inputs = _receive(connection)
        except (EOFError, OSError):
            return
        try:
            arrays = [np.ascontiguousarray(array) for array in function(inputs)]
        except Exception as e:  # whatever it is, chipwise must hear of it
            connection.send_bytes(json.dumps({"what": f"{type(e).__name__}: {e}"}).encode())
            continue
        header = {"arrays": [{"dtype": array.dtype.str, "shape": array.shape} for array in arrays]}
        connection.send_bytes(json.dumps(header).encode())
        for array in arrays:
            connection.send_bytes(array.tobytes())


def _receive(connection: Connection) -> list[Any]:
    header = json.loads(connection.recv_bytes())
    return [np.frombuffer(connection.recv_bytes(), one["dtype"]).reshape(one["shape"]) for one in header["arrays"]]
