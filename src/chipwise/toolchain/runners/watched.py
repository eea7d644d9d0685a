"""Runs a module such as pip, and ends with chipwise: ``python -I watched.py MODULE ARGUMENTS...``."""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading


def _die_with_parent() -> None:
    """Standard input is a pipe that chipwise holds: when it closes, chipwise is gone, and so must we be."""
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_die_with_parent, daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
