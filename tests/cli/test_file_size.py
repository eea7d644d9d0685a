from __future__ import annotations

import pytest

from chipwise.cli.file_size import file_size


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "     0.000 KB"),
        (76, "     0.076 KB"),
        (99_999, "    99.999 KB"),
        (100_000, "     0.100 MB"),
        (124_735_616, "   124.736 MB"),
    ],
)
def test_small_sizes_are_in_kilobytes(n_bytes: int, text: str) -> None:
    assert file_size(n_bytes) == text
