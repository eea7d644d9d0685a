from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from benchmarks.contestant import RUNNERS, Runner, RunnerError
from benchmarks.runners.protocol import Job

JOB = Job(model="none", prompt=[5, 6, 7], new_tokens=3, context=16, threads=1)
COUNTING = """
    import os, sys, time
    sys.path.insert(0, {runners!r})
    from protocol import serve

    class Counting:
        def __init__(self, job):
            os.write(1, b"a library talks\\n")
            self.prompt, self.resets, self.ballast = job.prompt, 0, b"x" * 50_000_000
        def reset(self):
            self.resets += 1
        def prefill(self):
            time.sleep(0.02)
            return sum(self.prompt)
        def decode(self, token, count):
            time.sleep(0.03)
            return [token + self.resets] * count
        def follow(self, prompt, answer):
            import numpy
            return numpy.outer(answer, prompt) / 2

    serve(Counting, ("numpy",))
"""


def runner(folder: Path, text: str) -> Runner:
    path = folder / "fake_runner.py"
    path.write_text(textwrap.dedent(text).format(runners=str(RUNNERS)))
    return Runner([sys.executable, str(path)], JOB)


def test_rounds_and_peak_memory_come_from_the_process(tmp_path: Path) -> None:
    counting = runner(tmp_path, COUNTING)
    assert set(counting.ready["versions"]) == {"python", "numpy"}
    first, second = counting.round(), counting.round()
    assert first["tokens"] == [18, 19, 19, 19]
    assert second["tokens"] == [18, 20, 20, 20]
    assert first["prefill_s"] >= 0.02
    assert first["decode_s"] >= 0.03
    assert counting.finish()["peak_bytes"] > 50_000_000


def test_logits_at_an_answer_s_tokens(tmp_path: Path) -> None:
    counting = runner(tmp_path, COUNTING)
    logits = counting.follow([2, 3, 5], [1, 7], tmp_path / "logits")
    assert logits.tolist() == [[1.0, 1.5, 2.5], [7.0, 10.5, 17.5]]
    assert counting.round()["tokens"][0] == 18
    counting.kill()


def test_a_runner_that_dies_is_an_error_and_no_hang(tmp_path: Path) -> None:
    with pytest.raises(RunnerError, match="code 3"):
        runner(tmp_path, "import sys; sys.stdin.readline(); sys.exit(3)")


def test_every_peer_has_a_runner() -> None:
    assert {path.name for path in RUNNERS.glob("*_runner.py")} == {
        "chipwise_runner.py", "genai_runner.py", "llamacpp_runner.py",
    }  # fmt: skip
