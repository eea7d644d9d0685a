"""Writes golden.npz: what transformers answers, in float64, for every small model. Run as a module from the root."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from tests.model.decoder.random_models import CASES, tokens, write_folder
from tests.model.decoder.sessions import GOLDEN


def reference(folder: Path, *, double: bool) -> np.ndarray:
    """The logits of a folder's model after every token of ``tokens()``."""
    # Here, because these two take seconds and every run of the tests imports this file.
    import torch
    from transformers import AutoModelForCausalLM

    model, info = AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, attn_implementation="eager", dtype=torch.float32
    )
    assert not any(info.values()), info
    with torch.inference_mode():
        logits = (model.double() if double else model)(torch.tensor([tokens()])).logits[0]
    return logits.float().numpy()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        answers = {case: reference(write_folder(case, Path(folder) / case), double=True) for case in CASES}
    np.savez_compressed(GOLDEN, **answers)


if __name__ == "__main__":
    main()
