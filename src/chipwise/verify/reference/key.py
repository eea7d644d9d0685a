"""The key of reference answers: everything they depend on, as one digest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from chipwise.engine import Session
from chipwise.files import sha256_bytes
from chipwise.report.environment import versions
from chipwise.target.host.machine import look
from chipwise.verify.generate import CHUNK_TOKENS, Prompt
from chipwise.verify.self_check import POSITIONS

if TYPE_CHECKING:
    # Python 3.10 has it elsewhere.
    from importlib.resources.abc import Traversable

_PACKAGES = ("chipwise", "numpy", "onnxruntime")


def reference_key(
    content: Mapping[str, Any], prompts: Sequence[Prompt], eos_ids: Sequence[int], candidate: Session
) -> str:
    """The digest of what a reference's logits depend on, in hex.

    Args:
        content: What would be opened, and how: digests of its graphs, tokenizer and chat template; its engine, slots,
            context, threads and options.
        prompts: The token ids of every case and the length of its answer.
        eos_ids: Tokens that end an answer.
        candidate: What the reference is compared with: its shapes bound those that the reference is run in.
    """
    everything = {
        "content": dict(content),
        "prompts": [[prompt.tokens, prompt.max_tokens] for prompt in prompts],
        "sampling": {"greedy": True, "eos_ids": list(eos_ids)},
        "shapes": {
            "slots": candidate.n_slots,
            "context": candidate.max_context,
            "step_tokens": candidate.max_step_tokens,
            "chunk_tokens": CHUNK_TOKENS,
            "self_check_positions": POSITIONS,
        },
        "versions": versions(_PACKAGES),
        "engine code": engine_code(),
        "machine": _machine(),
    }
    return sha256_bytes(json.dumps(everything, sort_keys=True, default=list).encode())


@lru_cache(maxsize=1)
def engine_code() -> str:
    """The digest of the code that runs a model: a working copy of chipwise changes without its version."""
    sources = sorted(_sources(resources.files("chipwise.engine")), key=lambda source: source[0])
    return sha256_bytes(json.dumps([[name, sha256_bytes(data)] for name, data in sources]).encode())


def _sources(folder: Traversable, prefix: str = "") -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _sources(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            found.append((prefix + entry.name, entry.read_bytes()))
    return found


@lru_cache(maxsize=1)
def _machine() -> list[str | int]:
    """What kernels are chosen by: the same graph gives other last digits on another processor."""
    machine = look()
    return [machine.cpu.model, machine.threads, *sorted(machine.cpu.features)]
