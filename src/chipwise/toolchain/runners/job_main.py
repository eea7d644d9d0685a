"""Runs one job of a vendor's toolchain: request.json in, result.json out. It imports nothing of chipwise.

Called as ``python -I -u job_main.py RUNNER.py`` in the job's own folder, by the toolchain's Python (3.8 or newer).
RUNNER.py holds ``ACTIONS``: name -> function(request), which returns ``{"values": {...}, "artifacts": [...]}``: JSON,
and the names of the files it wrote into the current folder. A request holds the keys ``token``, ``action``, ``values``
(JSON) and ``files`` (name -> absolute path). What goes wrong is raised, with a ``step`` if known; the result says so.
An outcome may hold ``then``, a function that runs once the result is written, while chipwise goes on asking it things.
A runner may append the steps it begins to ``steps.txt``, a line each: progress, and where it was if it dies.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import threading
from typing import Any


def _die_with_parent() -> None:
    """Standard input is a pipe that chipwise holds: when it closes, chipwise is gone, and so must we be."""
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)


def _actions(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("chipwise_runner", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ACTIONS


def _write(result: dict[str, Any]) -> None:
    with open("result.json.part", "w", encoding="utf-8") as stream:
        json.dump(result, stream)
    os.replace("result.json.part", "result.json")


def main() -> int:
    """Run the action that the request names; 0 if its result was written, 1 if that says what failed."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    with open("request.json", encoding="utf-8") as stream:
        request = json.load(stream)
    answer = {"token": request["token"]}
    try:
        outcome = _actions(sys.argv[1])[request["action"]](request)
        _write({**answer, "ok": True, "values": outcome["values"], "artifacts": outcome["artifacts"]})
        if "then" in outcome:
            outcome["then"]()
    except Exception as e:  # whatever it is, chipwise must hear of it
        sys.excepthook(type(e), e, e.__traceback__)
        step = getattr(e, "step", None)
        _write({**answer, "ok": False, "step": step, "what": f"{type(e).__name__}: {e}" if step is None else str(e)})
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # A vendor's library may hang or crash while Python shuts down, after its work is done and written.
    os._exit(code)
