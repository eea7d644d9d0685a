from __future__ import annotations

import subprocess
import sys

import pytest

HOST_ONLY = {
    "onnx",
    "onnx_ir",
    "onnxscript",
    "onnxslim",
    "safetensors",
    "gguf",
    "torch",
    "transformers",
    "httpx",
    "scipy",
}


@pytest.mark.parametrize("command", ["verify", "suite"])
def test_a_board_needs_no_host_package_to_verify(command: str) -> None:
    code = f"import sys, chipwise.cli.{command}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & HOST_ONLY == set()
