from __future__ import annotations

import re
from pathlib import Path

from chipwise.target import load_target, names
from chipwise.target.docs import render

PAGE = Path(__file__).parents[2] / "docs" / "targets.md"


def test_the_page_in_the_repository_is_the_one_of_the_catalogue() -> None:
    # scripts/gen_docs.py writes it, below a line that says so.
    assert PAGE.read_text(encoding="utf-8").endswith(f"\n\n{render().strip()}\n")


def test_the_page_tells_every_target_and_claim() -> None:
    page = render()
    assert all(f"\n### {name}\n" in page for name in names())
    assert "RK3588 has 64 GB/s of memory bandwidth" in page
    assert "- `matmul_k_max`: " in page


def test_the_examples_of_the_page_load(tmp_path: Path) -> None:
    for example in re.findall(r"```toml\n(.*?)```", render(), re.DOTALL):
        name = re.search(r'name = "([^"]+)"', example.partition("[board]")[2] or example)
        assert name is not None
        (tmp_path / f"{name[1]}.toml").write_text(example, encoding="utf-8")
    assert load_target("gateway-8g", [tmp_path]).chip.name == "rk3588"
    assert load_target("mychip", [tmp_path]).constraints.opset_max is not None
