"""How much memory does writing a model's graphs take, over the size of the weights written?

    python -m benchmarks.write_memory

Each form is written in float32 by a process of its own, the one the tests use. Counted is the process's own memory
(RssAnon): the pages of the mapped source file are the system's to take back. Writes results/write_memory.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.machine import today
from benchmarks.model import ROOT, smollm2
from benchmarks.results import RESULTS, WriteMemory, Written, save
from chipwise.report.environment import versions

FORMS = ("fused", "portable")
# Issue goal.
GOAL = 1.3


def measure(gguf: Path, form: str) -> Written:
    """Write one form into a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.model.decoder.peak_memory", str(gguf), folder, form]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)
    return Written(form, found["written"], found["anon"], found["hwm"], found["anon"] / found["written"])


def main() -> int:
    """Run and save; 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description="Peak memory of writing graphs over the size written.")
    parser.add_argument("--out", type=Path, default=RESULTS / "write_memory.json", help="where the result goes")
    arguments = parser.parse_args()
    gguf = smollm2()
    written = tuple(measure(gguf, form) for form in FORMS)
    met = all(one.ratio <= GOAL for one in written)
    save(WriteMemory(today(), gguf.stem, versions(), written, GOAL, met), arguments.out)
    for one in written:
        print(f"{one.form}: {one.anonymous_bytes / 1e6:.0f} MB for {one.written_bytes / 1e6:.0f} MB, {one.ratio:.2f}")
    print(f"goal at most {GOAL}: {'met' if met else 'MISSED'}; {arguments.out} written")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
