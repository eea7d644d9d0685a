from __future__ import annotations

import chipwise.target


def test_the_declared_names_exist_and_nothing_else_is_declared() -> None:
    assert sorted(chipwise.target.__all__) == [
        "Alignment", "Board", "Chip", "Claim", "ComputeUnit", "Constraints", "Fact", "MemoryRegion", "Mode",
        "Placement", "Provenance", "Quantity", "SchemeSupport", "Target", "catalog", "load_target", "names",
    ]  # fmt: skip
    assert all(hasattr(chipwise.target, name) for name in chipwise.target.__all__)
