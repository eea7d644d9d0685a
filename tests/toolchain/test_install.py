from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from chipwise.errors import InputError, OutputError, ToolchainError
from chipwise.toolchain import install as module
from chipwise.toolchain.doctor import examine
from chipwise.toolchain.environment import Environment, State
from chipwise.toolchain.install import install, remove
from chipwise.toolchain.stamp import Stamp
from tests.toolchain import fake

# Real environments and real pip.
pytestmark = pytest.mark.slow


class Steps:
    """Remembers what an installation said."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.lines: list[str] = []

    def step(self, name: str, done_bytes: int, total_bytes: int) -> None:
        assert 0 <= done_bytes <= total_bytes
        self.names.append(name)

    def line(self, text: str) -> None:
        self.lines.append(text)


def wheel(folder: Path, name: str, version: str) -> None:
    """A wheel of one module that holds its version."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", f"version = {version!r}\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for name, version in (("tcone", "1.0"), ("tcone", "2.0"), ("tctwo", "1.5")):
        wheel(folder, name, version)
    return folder


@pytest.fixture(autouse=True)
def offline(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _offline(wheels, monkeypatch)


def _offline(wheels: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("PIP_CONFIG_FILE", os.devnull)
    patch.setenv("PIP_NO_INDEX", "1")
    patch.setenv("PIP_FIND_LINKS", str(wheels))
    patch.delenv("PIP_CONSTRAINT", raising=False)


def _spec(folder: Path):
    return fake.spec(folder, "tcone==1.0", "tctwo<2", imports=("tcone", "tctwo"))


@pytest.fixture(scope="module")
def whole(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Environment, Steps]:
    """A toolchain installed once by the real venv and pip; tests work on copies."""
    folder = tmp_path_factory.mktemp("whole")
    environment, steps = Environment(_spec(folder), folder / "tool chains"), Steps()
    with pytest.MonkeyPatch.context() as patch:
        _offline(wheels, patch)
        install(environment, accept_licence=True, listener=steps)
    return environment, steps


@pytest.fixture
def environment(whole: tuple[Environment, Steps], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """A copy of the installed one. Another venv is a copy too, for a real one takes seconds."""
    run = module._run

    def copying(environment: Environment, python: Path, arguments: list[str], name: str, said: Steps) -> None:
        if arguments[0] != "venv":
            run(environment, python, arguments, name, said)
            return
        shutil.copytree(whole[0].folder, environment.folder, symlinks=True)
        for file in site(environment).glob("tc*"):
            shutil.rmtree(file) if file.is_dir() else file.unlink()

    monkeypatch.setattr(module, "_run", copying)
    shutil.copytree(whole[0].root, tmp_path / "root", symlinks=True)
    return Environment(whole[0].spec, tmp_path / "root")


def again(environment: Environment) -> list[str]:
    """Install again, check that it is whole then, and give the steps it took."""
    steps = Steps()
    install(environment, accept_licence=True, listener=steps)
    assert examine(environment) == []
    assert environment.state is State.READY
    return steps.names


def site(environment: Environment) -> Path:
    return next((environment.folder / "lib").glob("python*/site-packages"))


def test_installs_step_by_step_and_proves_itself(whole: tuple[Environment, Steps]) -> None:
    environment, steps = whole
    assert steps.names == ["Python", "tcone==1.0", "tctwo<2", "proof"]
    assert any("tcone" in line for line in steps.lines)
    assert environment.state is State.READY
    assert examine(environment) == []
    assert sorted(path.name for path in environment.root.iterdir()) == ["fake", "fake.json", "fake.lock", "fake.log"]
    assert not {"tcone", "tctwo"} & {path.stem for path in Path(module.__file__).parents[2].iterdir()}


def test_a_whole_one_is_left_as_it_is(environment: Environment) -> None:
    assert again(environment) == []


def test_nothing_happens_before_the_licence_is_accepted(tmp_path: Path) -> None:
    environment = Environment(fake.spec(tmp_path, "tcone==1.0"), tmp_path / "root")
    with pytest.raises(InputError, match=r"Fake Licence, https://example\.org/licence; read it and give --accept-lic"):
        install(environment)
    assert not environment.root.exists()


def test_another_machine_is_refused(tmp_path: Path) -> None:
    environment = Environment(fake.spec(tmp_path, machines=("pdp11",)), tmp_path / "root")
    with pytest.raises(InputError, match=r"does not run on .*; install it on a machine of type pdp11"):
        install(environment, accept_licence=True)


def test_an_interrupted_one_goes_on(environment: Environment) -> None:
    first, second = (step.pip_arguments() for step in environment.spec.steps)
    shutil.rmtree(site(environment) / "tctwo-1.5.dist-info")
    Stamp(made=True, started=second, done=(first,)).write(environment.stamp_file)
    assert environment.state is State.PARTIAL
    assert examine(environment)[0].what == "fake is half installed"
    assert again(environment) == ["tctwo<2", "proof"]


@pytest.mark.slow
def test_a_step_cut_short_that_looks_whole_is_done_again(environment: Environment) -> None:
    first, second = (step.pip_arguments() for step in environment.spec.steps)
    (site(environment) / "tctwo.py").write_text("cut(")
    Stamp(made=True, started=second, done=(first,)).write(environment.stamp_file)
    assert again(environment) == ["tctwo<2", "proof"]


@pytest.mark.slow
def test_a_wrong_version_is_named_and_repaired(environment: Environment) -> None:
    subprocess.run([environment.python, "-m", "pip", "install", "-q", "tcone==2.0"], check=True, capture_output=True)
    assert [ailment.what for ailment in examine(environment)] == ["tcone 2.0 is installed, tcone==1.0 is needed"]
    assert again(environment) == ["tcone==1.0", "tctwo<2", "proof"]


@pytest.mark.slow
def test_a_missing_package_is_named_and_repaired(environment: Environment) -> None:
    subprocess.run([environment.python, "-m", "pip", "uninstall", "-qy", "tctwo"], check=True, capture_output=True)
    found = [ailment.what for ailment in examine(environment)]
    assert found[0] == "tctwo is missing, tctwo<2 is needed"
    assert found[1].startswith("tctwo does not import: ModuleNotFoundError")
    assert again(environment) == ["tctwo<2", "proof"]


@pytest.mark.slow
def test_altered_files_make_it_start_anew(environment: Environment) -> None:
    (site(environment) / "tcone.py").write_text("import nothing_of_that_name")
    assert "tcone does not import: ModuleNotFoundError" in examine(environment)[0].what
    assert again(environment) == ["Python", "tcone==1.0", "tctwo<2", "proof"]


@pytest.mark.slow
def test_a_dead_python_makes_it_start_anew(environment: Environment) -> None:
    environment.python.unlink()
    environment.python.symlink_to("/nowhere/python")
    assert examine(environment)[0].what.startswith("fake is not installed")
    assert again(environment)[0] == "Python"


@pytest.mark.slow
def test_pins_of_a_newer_chipwise_are_installed(environment: Environment) -> None:
    steps = fake.spec(environment.root, "tcone==2.0", "tctwo<2").steps
    newer = Environment(replace(environment.spec, steps=steps), environment.root)
    assert again(newer) == ["tcone==2.0", "tctwo<2", "proof"]


@pytest.mark.slow
def test_an_unreadable_stamp_is_no_stamp(environment: Environment) -> None:
    environment.stamp_file.write_text('{"made": 1')
    assert again(environment)[0] == "Python"


@pytest.mark.slow
def test_one_made_by_hand_is_taken_as_it_is(environment: Environment) -> None:
    environment.stamp_file.unlink()
    assert environment.state is State.READY
    assert again(environment) == []


def test_pips_failure_is_one_line(environment: Environment) -> None:
    steps = (*environment.spec.steps, *fake.spec(environment.root, "tcmissing==1.0").steps)
    longer = Environment(replace(environment.spec, steps=steps), environment.root)
    with pytest.raises(ToolchainError, match=r"failed at 'tcmissing==1\.0': .*No matching distribution") as caught:
        install(longer, accept_licence=True)
    assert "\n" not in str(caught.value)
    assert longer.state is State.PARTIAL
    assert not longer.temporary_folder.exists()


@pytest.mark.slow
def test_a_failed_proof_is_no_success(environment: Environment) -> None:
    environment.stamp_file.unlink()
    runner = environment.root / "bad.py"
    runner.write_text("import os\n\n\ndef prove(request):\n    os.abort()\n\n\nACTIONS = {'prove': prove}\n")
    bad = Environment(replace(environment.spec, runner=runner), environment.root)
    assert "its proof fails: fake prove: the job was ended by SIGABRT" in examine(bad)[0].what
    with pytest.raises(ToolchainError, match=r"is installed but does not work: its proof fails: .*SIGABRT"):
        install(bad, accept_licence=True)
    assert bad.state is State.PARTIAL


def test_too_little_space_is_said_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = Environment(fake.spec(tmp_path, "tcone==1.0"), tmp_path / "root")
    monkeypatch.setattr("chipwise.files.free_bytes", lambda path: 999)
    with pytest.raises(OutputError, match=r"no space left to write \(999 bytes free, 1000 bytes needed\)"):
        install(environment, accept_licence=True)
    assert not environment.folder.exists()


@pytest.mark.parametrize("action", [lambda e: install(e, accept_licence=True), remove])
def test_a_folder_of_something_else_is_never_cleared(tmp_path: Path, action) -> None:
    environment = Environment(fake.spec(tmp_path, "tcone==1.0"), tmp_path / "root")
    environment.folder.mkdir(parents=True)
    (environment.folder / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="holds something else"):
        action(environment)
    assert (environment.folder / "thesis.txt").read_text() == "mine"


def test_two_at_once_are_refused(environment: Environment) -> None:
    with environment.lock_file.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(OutputError, match="another command installs or removes"):
            install(environment, accept_licence=True)


def test_remove_leaves_nothing(environment: Environment) -> None:
    assert remove(environment)
    assert list(environment.root.iterdir()) == []
    assert not remove(environment)


def test_the_installer_does_not_outlive_us(environment: Environment) -> None:
    (site(environment) / "pip" / "__main__.py").write_text(
        f"import os, time\nopen({str(environment.root / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    Stamp(made=True).write(environment.stamp_file)
    code = (
        "import sys; from pathlib import Path; from tests.toolchain.test_install import *\n"
        "from tests.toolchain.test_install import _spec\n"
        "install(Environment(_spec(Path(sys.argv[2])), Path(sys.argv[1])), accept_licence=True)\n"
    )
    folder = Path(environment.spec.runner).parent
    ours = subprocess.Popen(
        [sys.executable, "-c", code, str(environment.root), str(folder)], cwd=Path(__file__).parents[2]
    )
    deadline = time.monotonic() + 20
    pid = environment.root / "pid"
    while not (pid.exists() and pid.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    ours.send_signal(signal.SIGKILL)
    ours.wait()
    while Path(f"/proc/{pid.read_text()}/statm").exists() and time.monotonic() < deadline:
        if Path(f"/proc/{pid.read_text()}/statm").read_text().startswith("0 "):
            break  # a zombie that nobody reaps
        time.sleep(0.02)
    assert time.monotonic() < deadline
