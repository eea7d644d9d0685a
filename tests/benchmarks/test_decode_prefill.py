from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from benchmarks.contestant import RUNNERS, Contestant
from benchmarks.decode_prefill import outcome, run
from benchmarks.traffic import Traffic
from benchmarks.workload import Workload

# A process is slow in its first run; the runs after it take 10, 250 and 30 ms to decode.
FAKE = """
    import sys, time
    sys.path.insert(0, {runners!r})
    from protocol import serve

    class Fake:
        def __init__(self, job):
            self.waits = iter([0.4, 0.01, 0.25, 0.03])
            self.first = job.prompt[0]
        def reset(self):
            pass
        def prefill(self):
            return self.first
        def decode(self, token, count):
            time.sleep(next(self.waits))
            return [7] * count

    serve(Fake, ())
"""


class _Fake(Contestant):
    def command(self) -> list[str]:
        return [str(self.python), str(self.model)]


@pytest.fixture
def fake(tmp_path: Path) -> Contestant:
    script = tmp_path / "fake_runner.py"
    script.write_text(textwrap.dedent(FAKE).format(runners=str(RUNNERS)))
    return _Fake("fake", "Fake", Path(sys.executable), script, Traffic(1_000_000, 100))


def test_each_round_is_a_new_warmed_process(fake: Contestant) -> None:
    workload = Workload(prompt_tokens=4, new_tokens=2)
    found = run([fake], workload, rounds=2)["fake"]
    assert len(found) == 2
    # The median of the runs after the warm-up, in both: the second round did not go on where the first ended.
    assert all(0.03 <= one["decode_s"] < 0.2 for one in found)
    result = outcome(fake, found, workload, read_bps=1e9)
    assert result.first_tokens == (workload.prompt()[0], 7, 7)
    assert result.kv_read_bytes == 500
    assert result.bandwidth_share == pytest.approx((1_000_000 + 500) * result.decode.median / 1e9)
