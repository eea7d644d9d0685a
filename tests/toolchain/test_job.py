from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from chipwise.errors import DependencyError, InputError, ToolchainError
from chipwise.toolchain import Job, JobResult, run_job
from chipwise.toolchain.environment import Environment
from tests.toolchain import fake


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    scratch = tmp_path / "scratch with blanks"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    return fake.environment(tmp_path)


def run(environment: Environment, action: str, **options: object) -> JobResult:
    """Run a job whose files are not needed afterwards, and check that nothing of it stays."""
    values = options.pop("values", {})
    job = Job(action, values, **{"timeout_s": 30.0, **options})  # type: ignore[arg-type]
    try:
        with run_job(environment, job) as result:
            return result
    finally:
        assert os.listdir(tempfile.gettempdir()) == []


def fails(environment: Environment, action: str, match: str, **options: object) -> ToolchainError:
    with pytest.raises(ToolchainError, match=match) as caught:
        run(environment, action, **options)
    assert "\n" not in str(caught.value)
    return caught.value


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_json_and_files_go_in_and_come_out(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"12345")
    job = Job("echo", {"a": [1, "ü"]}, {"model": tmp_path / "m.onnx"}, artifacts=("out.bin",), timeout_s=30)
    with run_job(environment, job) as result:
        assert result.values["got"] == {"a": [1, "ü"]}
        assert result.values["sizes"] == {"model": 5}
        assert result.artifacts["out.bin"].read_bytes() == b"content"
        assert result.stdout.read_bytes() == b"from descriptor 1\n"
        assert result.stderr.read_bytes() == b"from descriptor 2\n"
        assert Path(result.values["cwd"]) == result.folder
        assert Path(result.values["tmp"]).parent == result.folder
        assert 0 < result.duration_s < 30
    assert not result.folder.exists()


def test_the_job_sees_nothing_of_ours(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    values = run(environment, "echo").values
    assert str(tmp_path) not in values["path"]
    assert "" not in values["path"]
    assert values["chipwise"] is False


def test_arrays_are_written_in_order(environment: Environment) -> None:
    arrays = {"inputs": [np.full((2, 3), k, np.float32) for k in range(12)]}
    assert run(environment, "load", arrays=arrays).values["sums"] == [6.0 * k for k in range(12)]


def test_two_jobs_get_two_folders(environment: Environment) -> None:
    assert run(environment, "echo").folder != run(environment, "echo").folder


def test_kept_folders_stay_also_after_a_failure(environment: Environment, tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    with run_job(environment, Job("echo", timeout_s=30), keep=keep) as result:
        pass
    assert (result.folder / "out.bin").exists()
    with pytest.raises(ToolchainError), run_job(environment, Job("raises", timeout_s=30), keep=keep):
        pass
    assert len(list(keep.iterdir())) == 2


@pytest.mark.parametrize(
    ("action", "match"),
    [
        ("raises", r"^fake raises: failed: ValueError: no such scheme$"),
        ("error_line", r"returned -1; its log says: E build: the cause$"),
        ("abort", r"was ended by SIGABRT, status 134; its log ends: Not Support Dtype: 2$"),
        ("unknown", "failed: KeyError: 'unknown'"),
    ],
)
def test_what_goes_wrong_is_said_with_the_end_of_the_log(environment: Environment, action: str, match: str) -> None:
    assert fails(environment, action, match).log_tail


@pytest.mark.parametrize(
    ("status", "match"),
    [
        (0, "ended with status 0 but left no result"),
        (7, "ended with status 7"),
        (137, r"ended by SIGKILL \(out of memory\?\)"),
        (134, "ended by SIGABRT, status 134"),
    ],
)
def test_an_exit_is_no_result(environment: Environment, status: int, match: str) -> None:
    fails(environment, "exits", match, values={"status": status})


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "[" * 100_000, '{"token": "0"}', '{"ok": true, "values": {}, "artifacts": []}', "\x00"],
)
def test_a_result_that_is_not_this_jobs_is_refused(environment: Environment, text: str) -> None:
    fails(environment, "forged", "result.json", values={"text": text})


def test_an_abort_after_the_result_is_a_failure(environment: Environment) -> None:
    fails(environment, "late_abort", "SIGABRT", artifacts=("out.bin",))


@pytest.mark.parametrize(
    ("action", "match"),
    [("nothing", r"wrote no out\.bin"), ("empty", r"out\.bin is empty"), ("old", r"out\.bin is older than the job")],
)
def test_only_an_artifact_of_this_job_is_a_success(environment: Environment, action: str, match: str) -> None:
    fails(environment, action, match, artifacts=("out.bin",))


@pytest.mark.parametrize(
    ("action", "match"), [("linked", "outside"), ("hard_linked", "older than"), ("outside", "outside")]
)
def test_a_file_that_was_there_before_is_no_artifact(
    environment: Environment, tmp_path: Path, action: str, match: str
) -> None:
    before = tmp_path / "before.bin"
    before.write_bytes(b"earlier")
    fails(environment, action, match, values={"to": str(before)})


def test_a_hanging_job_is_stopped_with_all_its_children(environment: Environment, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    start = time.monotonic()
    match = r"stopped after 1\.5 s; its log ends: layer 7 of 9$"
    fails(environment, "hang", match, values={"pids": str(pids)}, timeout_s=1.5)
    assert time.monotonic() - start < 10
    assert all(gone(int(pid)) for pid in pids.read_text().split())


def test_ctrl_c_stops_the_job_and_its_children(environment: Environment, tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    def interrupt() -> None:
        while not pids.exists() or len(pids.read_text().split()) < 3:
            time.sleep(0.02)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    # Started in the background, a shell lets its children ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            run(environment, "hang", values={"pids": str(pids)})
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert all(gone(int(pid)) for pid in pids.read_text().split())


def test_a_job_does_not_outlive_us(environment: Environment, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = (
        "import sys; from pathlib import Path; from tests.toolchain import fake\n"
        "from chipwise.toolchain import *; from chipwise.toolchain.environment import Environment\n"
        "root, pids = Path(sys.argv[1]), sys.argv[2]\n"
        "with run_job(Environment(fake.spec(root), root / 'tool chains'), Job('hang', {'pids': pids})): pass\n"
    )
    ours = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), str(pids)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    deadline = time.monotonic() + 20
    while (not pids.exists() or len(pids.read_text().split()) < 3) and time.monotonic() < deadline:
        time.sleep(0.02)
    ours.kill()
    ours.wait()
    leader, child, stray = map(int, pids.read_text().split())
    # One that left the group lives on; only we could have found it.
    os.kill(stray, signal.SIGKILL)
    assert gone(leader)
    assert gone(child)


def test_children_left_behind_are_ended(environment: Environment) -> None:
    assert gone(run(environment, "orphan").values["pid"])


def test_too_much_log_stops_the_job(environment: Environment) -> None:
    fails(environment, "babble", "writing more than 5000000 bytes of log", max_log_bytes=5_000_000)


def test_a_large_log_of_garbage_does_no_harm(environment: Environment) -> None:
    result = run(environment, "garbage", artifacts=("out.bin",))
    assert result.values == {}


def test_memory_of_all_processes_is_measured(environment: Environment) -> None:
    ballast = np.ones(60 << 20)  # 480 MB of our own, which are none of the job's
    peak_bytes = run(environment, "memory", values={"megabytes": 100}).peak_bytes
    assert ballast[-1] == 1
    assert 164 << 20 <= peak_bytes < 400 << 20


def test_what_is_not_installed_is_said_before_anything_runs(environment: Environment, tmp_path: Path) -> None:
    with pytest.raises(DependencyError, match="fake is not installed; run `chipwise toolchain install fake`"):
        run(Environment(environment.spec, tmp_path), "echo")


def test_steps_are_heard_and_the_last_one_is_named_in_an_abort(environment: Environment) -> None:
    heard: list[str] = []
    with run_job(environment, Job("steps", {"abort": False}, timeout_s=30), on_step=heard.append):
        assert heard == ["load", "build 1/2", "build 2/2"]
    fails(environment, "steps", "^fake steps build 2/2: the job was ended by SIGABRT", values={"abort": True})


def test_what_a_listener_raises_is_its_own_and_ends_the_job(environment: Environment) -> None:
    def broken(step: str) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError), run_job(environment, Job("steps", {"abort": False}), on_step=broken):
        pass
    assert os.listdir(tempfile.gettempdir()) == []


def test_a_python_that_does_not_start_is_an_error(environment: Environment) -> None:
    environment.python.write_bytes(b"\x7fELF nonsense")
    fails(environment, "echo", "does not start")


def test_a_missing_input_file_is_the_users_error(environment: Environment, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        run(environment, "echo", files={"model": tmp_path / "absent.onnx"})


def test_runners_import_nothing_of_chipwise() -> None:
    folder = Path(__file__).parents[2] / "src" / "chipwise" / "toolchain" / "runners"
    scripts = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(scripts) >= 3
    for path in scripts:
        lines = path.read_text().splitlines()
        assert not [line for line in lines if line.lstrip().startswith(("import chipwise", "from chipwise"))]


def test_request_is_plain_json(environment: Environment, tmp_path: Path) -> None:
    with run_job(environment, Job("echo", {"x": 1}, timeout_s=30), keep=tmp_path / "kept") as result:
        request = json.loads((result.folder / "request.json").read_text())
    assert set(request) == {"token", "action", "values", "files"}
