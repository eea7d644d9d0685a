from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.cli.main import main
from chipwise.toolchain import registry
from chipwise.toolchain.environment import Environment
from chipwise.toolchain.registry import ToolchainRegistry
from tests.toolchain import fake


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """A fake toolchain, the only one registered."""
    environment = fake.environment(tmp_path)
    only = ToolchainRegistry("none")
    only.register(environment.spec)
    monkeypatch.setattr("chipwise.cli.toolchain.toolchains", only)
    monkeypatch.setattr(registry, "toolchains", only)
    monkeypatch.setenv("CHIPWISE_TOOLCHAINS", str(environment.root))
    return environment


def test_list_says_licence_size_and_state(
    installed: Environment, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["toolchain", "list"]) == 0
    out = capsys.readouterr().out
    assert "fake: fail in every way (installed)" in out
    assert "Fake Licence, https://example.org/licence" in out
    assert main(["toolchain", "list", "--folder", str(tmp_path / "elsewhere")]) == 0
    assert "(not installed)" in capsys.readouterr().out


def test_doctor_ends_with_0_only_if_all_is_right(installed: Environment, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["toolchain", "doctor", "fake"]) == 0
    assert capsys.readouterr().out == "fake: Python, 0 packages, imports and proof are right\n"
    installed.spec.runner.write_text("ACTIONS = {}")
    assert main(["toolchain", "doctor", "fake"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "its proof fails: fake prove: failed: KeyError: 'prove'",
        "to repair it: chipwise toolchain install fake",
    ]


def test_install_names_the_licence_and_does_nothing_without_consent(
    installed: Environment, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "new"
    assert main(["toolchain", "install", "fake", "--folder", str(folder)]) == 2
    out, err = capsys.readouterr()
    assert out == "licence of fake: Fake Licence, https://example.org/licence\n"
    assert err.count("\n") == 1
    assert "--accept-licence" in err
    assert not folder.exists()


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 2)])
def test_on_a_terminal_it_asks(
    installed: Environment, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda prompt: answer)
    assert main(["toolchain", "install", "fake"]) == code
    assert ("fake is installed and works" in capsys.readouterr().out) is (code == 0)


def test_remove_takes_it_away(installed: Environment, capsys: pytest.CaptureFixture[str]) -> None:
    (installed.folder / "pyvenv.cfg").touch()
    assert main(["toolchain", "remove", "fake"]) == 0
    assert capsys.readouterr().out == "fake is removed\n"
    assert not installed.folder.exists()
    assert main(["toolchain", "remove", "fake"]) == 0
    assert "not installed" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["install", "doctor", "remove"])
def test_unknown_names_are_the_users_error(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["toolchain", command, "../x"]) == 2
    assert "known toolchains: " in capsys.readouterr().err
