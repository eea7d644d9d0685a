from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.bundle import open_bundle
from chipwise.cli.main import main
from tests.bundle.test_variants import a_form, verdicts


@pytest.fixture
def forms(tmp_path: Path) -> tuple[str, str]:
    wide = a_form(tmp_path / "wide", b"w" * 100_000)
    return str(wide), str(a_form(tmp_path / "narrow", b"n" * 50_000, verdicts=verdicts(0.05, 0.91)))


def test_add_says_what_it_costs_and_inspect_shows_it(forms, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", "add-variant", *forms, "--as", "cool"]) == 0
    out = capsys.readouterr().out
    assert "added variant cool to tiny: KL 0.05 nats, 91.0% of next tokens, gate pass\n" in out
    assert "as built   0.100 MB for fake; KL 0.02 nats, 93.0% of next tokens, gate pass\n" in out
    assert "cool       50.094 KB for fake; KL 0.05 nats" in out
    assert "on disk    50.094 KB more, 0.150 MB in all\n" in out
    assert main(["inspect", forms[0]]) == 0
    out = capsys.readouterr().out
    assert "variants   cool: fake, 50.094 KB; KL 0.05 nats, 91.0% of next tokens, gate pass\n" in out
    assert "50.000 KB  weights of variant cool\n" in out
    assert "tokenizer of variant" not in out
    assert main(["bundle", "remove-variant", forms[0], "cool"]) == 0
    assert capsys.readouterr().out == "removed variant cool from tiny: 0.100 MB left\n"
    assert not open_bundle(Path(forms[0])).variants


def test_what_does_not_fit_is_one_line(tmp_path: Path, forms, capsys: pytest.CaptureFixture[str]) -> None:
    other = a_form(tmp_path / "other", b"o", template=b"[]")
    assert main(["bundle", "add-variant", forms[0], str(other), "--as", "cool"]) == 2
    assert capsys.readouterr().err == (
        f"error: {other}: another chat template than the bundle's; build it from the same model, for the same target\n"
    )
    assert main(["bundle", "add-variant", *forms]) == 2
    assert "--as" in capsys.readouterr().err
