from __future__ import annotations

import json

from chipwise.report import Finding

FINDING = Finding("opset", "error", "graph", "opset 23", "opset 19", "the opset is too new", "lower it")


def test_json_has_exactly_the_seven_fields_that_are_promised() -> None:
    fields = json.loads(json.dumps(FINDING.to_dict()))
    assert list(fields) == ["rule", "severity", "where", "measured", "limit", "message", "remedy"]
    assert Finding(**fields) == FINDING


def test_line() -> None:
    assert FINDING.line() == ("error[opset] graph: the opset is too new (measured opset 23, limit opset 19); lower it")
