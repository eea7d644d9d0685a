"""GraphDesk: a plain graph in the worker, and what it is asked."""

from __future__ import annotations

from pathlib import Path

from chipwise.engine.graph_session import DescribesInputs, GraphEngine, GraphSession
from chipwise.engine.isolated.array_places import read_arrays, write_arrays
from chipwise.engine.isolated.shared import SharedMemory
from chipwise.engine.isolated.wire import Message
from chipwise.engine.registry import get_engine
from chipwise.errors import EngineError


class GraphDesk:
    """One open graph.

    Args:
        message: What to open.
        memory: Where arrays lie.

    Raises:
        EngineError: The engine runs no plain graphs, or cannot load this one.
    """

    def __init__(self, message: Message, memory: SharedMemory) -> None:
        engine = get_engine(message["engine"])
        if not isinstance(engine, GraphEngine):
            raise EngineError(f"the engine {message['engine']!r} runs no plain graphs", where=message["graph"])
        self._session: GraphSession = engine.open_graph(Path(message["graph"]), options=message["options"])
        self._memory = memory

    def facts(self) -> Message:
        """What the other side has to know of the graph."""
        session, inputs = self._session, None
        if isinstance(session, DescribesInputs):
            inputs = [
                (spec.name, spec.shape, None if spec.dtype is None else spec.dtype.str) for spec in session.inputs
            ]
        return {"input_names": session.input_names, "output_names": session.output_names, "inputs": inputs}

    def do(self, message: Message) -> Message:
        """Run once: the outputs are laid behind the inputs."""
        if message["do"] != "run":
            raise EngineError(f"the graph's process does not know {message['do']!r}")
        outputs = self._session.run(read_arrays(self._memory, message["inputs"]))
        places, _ = write_arrays(self._memory, outputs, message["end"])
        return {"outputs": places}

    def close(self) -> None:
        """Give all memory back."""
        self._session.close()
