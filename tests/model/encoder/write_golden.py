"""Writes golden.npz: what transformers answers, in float64, for every small encoder. Run as a module from the root."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tests.model.encoder.random_bert import CASES, inputs, write_folder

GOLDEN = Path(__file__).parent / "golden.npz"


def reference(
    folder: Path, feeds: Mapping[str, np.ndarray], *, pooling: str, normalize: bool, double: bool
) -> dict[str, np.ndarray]:
    """The hidden state and the embedding, pooled as sentence-transformers does."""
    # Here, because these two take seconds and every run of the tests imports this file.
    import torch
    from transformers import BertModel

    model = BertModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    feeds = {name: torch.tensor(values) for name, values in feeds.items()}
    with torch.inference_mode():
        hidden = (model.double() if double else model)(**feeds).last_hidden_state
        mask = feeds["attention_mask"][:, :, None].to(hidden.dtype)
        mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        pooled = hidden[:, 0] if "cls" in pooling else mean
        pooled = torch.nn.functional.normalize(pooled, p=2, dim=1) if normalize else pooled
    return {"last_hidden_state": hidden.float().numpy(), "sentence_embedding": pooled.float().numpy()}


def main() -> None:
    answers = {}
    with tempfile.TemporaryDirectory() as folder:
        for case, (_, modules) in CASES.items():
            pooling, normalize = modules or ("mean", False)
            path = write_folder(case, Path(folder) / case)
            found = reference(path, inputs(), pooling=pooling, normalize=normalize, double=True)
            answers |= {f"{case}.{name}": values for name, values in found.items()}
    np.savez_compressed(GOLDEN, **answers)


if __name__ == "__main__":
    main()
