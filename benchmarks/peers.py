"""Peers: the engines chipwise is compared with, each in an environment of its own.

    python -m benchmarks.peers             what is there and what is missing
    python -m benchmarks.peers --install   make what is missing (llama.cpp is compiled: minutes to an hour)

Environments lie under $CHIPWISE_PEERS, by default $XDG_CACHE_HOME/chipwise/peers. A benchmark goes on without a peer
that is missing, and says so.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from dataclasses import dataclass, field
from pathlib import Path

from chipwise.target.host.kernel_files import text
from chipwise.target.host.speed import cache_folder

# The kernel's name of a feature and the switch of llama.cpp's build that uses it.
_GGML_SWITCHES = {
    "avx": "AVX", "avx2": "AVX2", "fma": "FMA", "f16c": "F16C", "bmi2": "BMI2", "avx512f": "AVX512",
    "avx512vbmi": "AVX512_VBMI", "avx512_vnni": "AVX512_VNNI", "avx512_bf16": "AVX512_BF16",
}  # fmt: skip


@dataclass(frozen=True)
class Peer:
    """An engine.

    Attributes:
        name: Its folder, and its key in the results.
        title: Its name for people.
        module: What must be importable in its environment.
        requirements: What is installed.
        environment: Variables the installation needs.
    """

    name: str
    title: str
    module: str
    requirements: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def python(self) -> Path:
        """Its interpreter, there or not."""
        return folder() / self.name / "bin" / "python"

    def missing(self) -> str | None:
        """Why it cannot be used, None if it can."""
        remedy = "python -m benchmarks.peers --install"
        if not self.python.exists():
            return f"not installed; run {remedy}"
        done = subprocess.run([self.python, "-c", f"import {self.module}"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return None
        reason = (done.stderr.strip().splitlines() or [f"code {done.returncode}"])[-1]
        return f"cannot be imported ({reason}); run {remedy}"

    def install(self) -> None:
        """Make its environment.

        Raises:
            subprocess.CalledProcessError: pip failed; its own words say why.
        """
        if not self.python.exists():
            venv.create(folder() / self.name, with_pip=True)
        command = [str(self.python), "-m", "pip", "install", "--disable-pip-version-check", *self.requirements]
        subprocess.run(command, check=True, env={**os.environ, **self.environment})


def folder() -> Path:
    """Where the environments lie."""
    given = os.environ.get("CHIPWISE_PEERS")
    return Path(given) if given else cache_folder() / "peers"


def cpu_flags(cpuinfo: str) -> set[str]:
    """The instruction sets that the kernel names; x86 only."""
    lines = (line for line in cpuinfo.splitlines() if line.startswith("flags"))
    return set(next(lines, "").partition(":")[2].split())


def ggml_flags(flags: set[str]) -> str:
    """CMake's arguments for llama.cpp on a CPU with these instruction sets.

    On x86 each instruction set is named: GGML_NATIVE takes what the CPU claims, AMX too, which crashes in virtual
    machines whose kernel does not grant it. Elsewhere GGML_NATIVE serves.
    """
    switches = [f"-DGGML_{switch}=ON" for name, switch in _GGML_SWITCHES.items() if name in flags]
    native = "-DGGML_NATIVE=OFF" if switches else "-DGGML_NATIVE=ON"
    return " ".join([native, *switches, "-DLLAMA_CURL=OFF"])


def peers() -> list[Peer]:
    """The peers, at the versions compared with."""
    return [
        Peer(
            "genai", "onnxruntime-genai int4", "onnxruntime_genai",
            # The last three are for its model builder.
            ("onnxruntime-genai==0.18.0", "onnx", "torch", "transformers"),
        ),
        Peer(
            "llamacpp", "llama.cpp Q4_0", "llama_cpp", ("llama-cpp-python==0.3.36",),
            {"CMAKE_ARGS": ggml_flags(cpu_flags(text(Path("/proc/cpuinfo")) or ""))},
        ),
    ]  # fmt: skip


def main() -> int:
    """Say what is missing; with --install make it. 1 if something is missing at the end."""
    parser = argparse.ArgumentParser(description="The engines chipwise is compared with.")
    parser.add_argument("--install", action="store_true", help="make what is missing")
    install = parser.parse_args().install
    left = 0
    for peer in peers():
        reason = peer.missing()
        if reason and install:
            print(f"{peer.title}: installing into {folder() / peer.name}", flush=True)
            try:
                peer.install()
            except subprocess.CalledProcessError as e:
                print(f"{peer.title}: pip ended with code {e.returncode}", file=sys.stderr)
            reason = peer.missing()
        print(f"{peer.title}: {reason or 'ready'}")
        left += reason is not None
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
