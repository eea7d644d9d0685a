from __future__ import annotations

from pathlib import Path

import numpy as np

from chipwise.build.float16_plan import _shared_out
from chipwise.model.model import Model
from tests.build.test_portable_graphs import PROMPTS, _graphs


def test_what_is_measured_sets_no_range(even: Model, tmp_path: Path) -> None:
    graphs = _graphs(even, tmp_path)
    graphs.reference()
    texts = [[*PROMPTS[i % len(PROMPTS)][:3], i] for i in range(9)]
    calibrating, measured = _shared_out(graphs, texts)
    last = [[int(feed["input_ids"][0, -1]) for feed in feeds] for feeds in (calibrating, measured)]
    assert last == [[3, 4, 5, 6, 7, 8], [0, 1, 2]]
    # Of few texts none can be spared.
    calibrating, measured = _shared_out(graphs, texts[:4])
    assert len(calibrating) == len(measured) == 4
    assert np.array_equal(calibrating[0]["output_rows"], np.arange(4))
