"""Writes a model's graphs in a process of its own and prints what memory that took; run by test_memory.py.

Measured is anonymous memory (RssAnon): pages of the memory-mapped source files count as resident too, but the system
takes them back whenever it likes. The largest resident set (VmHWM) is printed beside it.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from chipwise.model.decoder import GraphSpec, build_decoder
from chipwise.model.importer import load_model
from chipwise.model.onnx_file_writer import save_graph, save_graphs
from chipwise.rewrite.passes.ort_decoder import fuse_decoder


def _status(field: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


class _Peak(threading.Thread):
    """The largest RssAnon seen, in bytes, looked at every millisecond."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.bytes = 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.001):
            self.bytes = max(self.bytes, _status("RssAnon"))


def main(source: Path, out: Path, form: str) -> None:
    baseline = _status("RssAnon")
    peak = _Peak()
    peak.start()
    model = load_model(source)
    decode = build_decoder(model.config, model.weights, GraphSpec("decode", 256))
    if form == "fused":
        saved = save_graph(fuse_decoder(decode, model.config), out, "decoder")
    else:
        prefill = build_decoder(model.config, model.weights, GraphSpec("prefill", 256))
        saved = save_graphs({"prefill": prefill, "decode": decode}, out, "weights.bin")["decode"]
    peak.done.set()
    peak.join()
    written = saved.weights.stat().st_size
    print(json.dumps({"written": written, "anon": peak.bytes - baseline, "hwm": _status("VmHWM")}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
