from __future__ import annotations

import json

from chipwise.report import Measurement

SPEED = Measurement("decode", 41.2345, "tok/s", 5, 1.256, "measured", "2 cores")


def test_fields_come_back() -> None:
    assert Measurement(**json.loads(json.dumps(SPEED.to_dict()))) == SPEED


def test_line_says_spread_runs_and_method() -> None:
    assert SPEED.line() == "decode: 41.23 tok/s (±1.3, n=5, measured)"
