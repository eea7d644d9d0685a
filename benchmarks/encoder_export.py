"""A sentence encoder as torch's exporter writes it, for the plain toolkit; needs torch and transformers."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import AutoModel

from chipwise.rewrite.pass_ import Feed

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUTS = ("last_hidden_state", "sentence_embedding")


class _Sentence(nn.Module):
    """The model with the mean over its tokens, scaled to length 1."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, Tensor]:
        hidden: Tensor = self.model(input_ids, attention_mask, token_type_ids).last_hidden_state
        weights = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return hidden, nn.functional.normalize(mean, dim=-1)


def export_encoder(folder: Path, out: Path, sample: Feed) -> None:
    """Write it with the sizes of a sample."""
    arguments = tuple(torch.from_numpy(sample[name]) for name in INPUTS)
    torch.onnx.export(
        _Sentence(folder), arguments, str(out), input_names=list(INPUTS), output_names=list(OUTPUTS),
        opset_version=17, dynamo=False,
    )  # fmt: skip
