from __future__ import annotations

from chipwise.cli.matrix_lines import matrix_lines, semantic_lines
from chipwise.report import Verdict
from chipwise.report.quality import CaseResult, DimensionScore, Quality, SemanticDrift

ROWS = (
    DimensionScore("logic", "all", 40, 39, (0.87, 1.0), 36, (0.77, 0.96), 4, 1, (-0.02, 0.19), 0.2),
    DimensionScore("logic", "lang=zh", 20, 20, (0.84, 1.0), 17, (0.64, 0.95), 3, 0, (-0.01, 0.36), 0.1),
    DimensionScore("noise", "all", 9, None, None, 9, (0.7, 1.0)),
)


def test_a_row_a_dimension_with_its_verdict() -> None:
    unsure = Verdict("logical_consistency_drop", 0.075, 0.03, "max", passed=False, sure=False, more_cases=30)
    floor = Verdict("logical_consistency_reference", 0.975, 0.5, "min", passed=True)
    alone = Verdict("noise_robustness", 1.0, 0.9, "min", passed=True)
    assert list(matrix_lines(ROWS, [unsure, floor, alone])) == [
        "dimension            cases  reference             candidate            lost               verdict",
        "Logical consistency  40     97.5 % (87 to 100 %)  90 % (77 to 96 %)    7.5 (-2 to 19 %)   "
        "not enough cases, about 30 more",
        "  lang=zh            20     100 % (84 to 100 %)   85 % (64 to 95 %)    15.0 (-1 to 36 %)",
        "Noise robustness     9      -                     100 % (70 to 100 %)  -                  pass",
    ]


def test_the_answers_that_drifted_most_stand_side_by_side() -> None:
    cases = tuple(
        CaseResult(str(i), "q", None, f"was {i}", "now\n" + "x" * 200, sdi=i / 10 if i else None) for i in range(5)
    )
    lines = list(semantic_lines(Quality(cases, semantic=SemanticDrift("m", 5, 0.2, (0.1, 0.3), 0.39, 0.4, blind=1))))
    assert lines[0].endswith("mean 0.200 (0.100 to 0.300), 95th percentile 0.390, largest 0.400, 5 cases")
    assert lines[1].startswith("  1 changed answers look the same")
    assert [line.split()[1] for line in lines if line.startswith("  0.")] == ["4", "3", "2"]
    assert "         before: was 4" in lines
    assert all(len(line) < 130 for line in lines[1:])
    assert list(semantic_lines(Quality(cases))) == []
