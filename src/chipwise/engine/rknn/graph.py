"""RknnGraphSession: a .rknn graph in one or several contexts of the NPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt

from chipwise.engine.graph_session import Arrays
from chipwise.engine.known_fault import Symptom
from chipwise.engine.rknn import known_faults
from chipwise.engine.rknn.context import RknnContext
from chipwise.engine.rknn.hand_over import converted, in_order, passes_through, quantized, shaped
from chipwise.engine.rknn.shapes import RknnShape, chosen
from chipwise.errors import EngineError
from chipwise.model.rknn_file import RknnFile


class RknnGraphSession:
    """An open graph.

    Beyond what ``GraphSession`` promises, as many threads may run it at once as it has contexts; a further one waits
    until a context is free. Runs take the contexts in turn.
    """

    def __init__(
        self,
        path: Path,
        file: RknnFile,
        contexts: Sequence[RknnContext],
        *,
        pass_through: bool,
        chip: str | None,
        shapes: Sequence[RknnShape] = (),
    ) -> None:
        self._shapes = tuple(shapes)
        self._path, self._file, self._chip = path, file, chip
        self._contexts = tuple(contexts)
        self._free: SimpleQueue[RknnContext | None] = SimpleQueue()
        for context in contexts:
            self._free.put(context)
        self._through = tuple(pass_through and passes_through(tensor) for tensor in file.inputs)
        self._closed = False

    @property
    def input_names(self) -> tuple[str, ...]:
        """The inputs, in order."""
        return tuple(tensor.name for tensor in self._file.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The outputs, in order."""
        return tuple(tensor.name for tensor in self._file.outputs)

    @property
    def contexts(self) -> int:
        """How many runs go on at once."""
        return len(self._contexts)

    def run(self, feed: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Run once; see ``GraphSession.run``."""
        where = str(self._path)
        given = {name: np.asarray(array) for name, array in feed.items()}
        arrays = in_order(self._file, given, where, listed=bool(self._shapes))
        shape = chosen(self._shapes, given, where)
        ready = [
            quantized(tensor, array) if through else converted(tensor, array)
            for tensor, array, through in zip(self._file.inputs, arrays, self._through, strict=True)
        ]
        context = self._free.get()
        try:
            if context is None or self._closed:
                raise EngineError("the session is closed")
            outputs = context.run(ready, self._through)
        finally:
            self._free.put(context)
        return shaped(self._file, [np.asarray(array) for array in outputs], where, shape)

    def explain(self, symptom: Symptom) -> str | None:
        """What is known about such outputs of this model on this board; see ``KnowsFaults``."""
        runtime = self._contexts[0].runtime_version
        return known_faults.explain(symptom, self._file, chip=self._chip, runtime=runtime)

    def close(self) -> None:
        """Give all memory back, once the runs that are on their way have ended."""
        if self._closed:
            return
        self._closed = True
        for _ in self._contexts:
            if (context := self._free.get()) is not None:
                context.close()
        # Whoever waits for a context gets this, and passes it on.
        self._free.put(None)
