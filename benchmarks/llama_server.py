"""llama-server: llama.cpp's own server, compiled from the sources that the llama-cpp-python package carries.

    python -m benchmarks.llama_server             says whether it is there
    python -m benchmarks.llama_server --install   compiles it (a quarter of an hour to an hour)

It lies under $CHIPWISE_PEERS, by default $XDG_CACHE_HOME/chipwise/peers. CHIPWISE_LLAMA_SERVER names the folder of
another build, with llama-server and llama-quantize in it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

from benchmarks.peers import cpu_flags, folder, ggml_flags
from chipwise.target.host.kernel_files import text

PACKAGE = "llama-cpp-python==0.3.36"
_PROGRAMS = ("llama-server", "llama-quantize")


def place() -> Path:
    """The folder of the programs, there or not."""
    given = os.environ.get("CHIPWISE_LLAMA_SERVER")
    return Path(given) if given else folder() / "llama-server"


def missing() -> str | None:
    """Why it cannot be used, None if it can."""
    absent = [name for name in _PROGRAMS if not (place() / name).is_file()]
    return f"no {absent[0]} in {place()}; run python -m benchmarks.llama_server --install" if absent else None


def version() -> str:
    """What it says of itself."""
    done = subprocess.run([place() / "llama-server", "--version"], capture_output=True, text=True, check=True)
    line = (done.stdout + done.stderr).strip().splitlines()[0]
    return f"{line.removeprefix('version: ')} from {PACKAGE}"


def install() -> None:
    """Download the sources and compile them for this CPU.

    Raises:
        subprocess.CalledProcessError: pip or the compiler failed; their own words say why.
    """
    with tempfile.TemporaryDirectory() as scratch:
        tools, sources = Path(scratch) / "tools", Path(scratch) / "sources"
        venv.create(tools, with_pip=True)
        pip = [str(tools / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "cmake", "ninja"], check=True)
        download = ["download", "--no-deps", "--no-binary", "llama-cpp-python", "-d", str(sources), PACKAGE]
        subprocess.run([*pip, *download], check=True)
        with tarfile.open(next(sources.glob("*.tar.gz"))) as archive:
            archive.extractall(sources, filter="data")
        llama_cpp = next(sources.glob("*/vendor/llama.cpp"))
        build = Path(scratch) / "build"
        flags = ggml_flags(cpu_flags(text(Path("/proc/cpuinfo")) or "")).split()
        flags += ["-DLLAMA_OPENSSL=OFF", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_BUILD_TESTS=OFF"]
        flags += ["-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF", "-DCMAKE_BUILD_TYPE=Release"]
        paths = {**os.environ, "PATH": f"{tools / 'bin'}:{os.environ['PATH']}"}
        cmake = str(tools / "bin" / "cmake")
        subprocess.run([cmake, "-S", llama_cpp, "-B", build, "-G", "Ninja", *flags], check=True, env=paths)
        subprocess.run([cmake, "--build", build, "--target", *_PROGRAMS], check=True, env=paths)
        place().mkdir(parents=True, exist_ok=True)
        for name in _PROGRAMS:
            shutil.copy2(build / "bin" / name, place() / name)


def main() -> int:
    """Say whether it is there; with --install make it. 1 if it is missing at the end."""
    parser = argparse.ArgumentParser(description="llama.cpp's server, which benchmarks.serving compares with.")
    parser.add_argument("--install", action="store_true", help="compile it")
    if parser.parse_args().install and missing():
        install()
    reason = missing()
    print(f"llama-server: {reason or version()}")
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main())
