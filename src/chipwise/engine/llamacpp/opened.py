"""Opened: a loaded model with its context, and every failure of opening in words."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chipwise.engine.huge_pages import available, huge_pages
from chipwise.engine.llamacpp.binding import ENGINE, Binding
from chipwise.engine.llamacpp.memory_plan import MemoryPlan
from chipwise.engine.llamacpp.runtime_log import runtime_log
from chipwise.errors import EngineError, InputError, ModelFormatError
from chipwise.files import is_lfs_pointer

_MAGIC = b"GGUF"
# enum llama_load_mode: none of the others.
_READ_WHOLE = 0
# enum llama_flash_attn_type: off. Its kernel sums in another order from 64 tokens on, and for a single row of 512
# tokens of context: answers would depend on who else is served (ADR 0023).
_FLASH_ATTENTION = 0


@dataclass(frozen=True)
class Opened:
    """Pointers to llama.cpp's objects.

    Attributes:
        binding: llama.cpp.
        model: ``llama_model *``.
        context: ``llama_context *``.
        memory: ``llama_memory_t``, its KV cache.
        vocab_size: Length of a row of logits.
        window: Tokens that some layers look back; 0 if all look at everything.
    """

    binding: Binding
    model: Any
    context: Any
    memory: Any
    vocab_size: int
    window: int

    def close(self) -> None:
        """Give all memory back."""
        self.binding.llama_free(self.context)
        self.binding.llama_model_free(self.model)


def open_gguf(binding: Binding, path: Path, plan: MemoryPlan, *, threads: int, step_tokens: int) -> Opened:
    """Load a GGUF file on the CPU, each slot a sequence with a buffer of its own.

    Args:
        binding: llama.cpp.
        path: The file.
        plan: Slots and their tokens.
        threads: Threads of a step.
        step_tokens: The most tokens of one call.

    Raises:
        ModelFormatError: The file is missing, empty, or no GGUF file.
        InputError: There are more slots than llama.cpp takes.
        EngineError: llama.cpp cannot load it, or has no memory for the KV cache.
    """
    _check_file(path)
    most = int(binding.llama_max_parallel_sequences())
    if plan.n_slots > most:
        raise InputError(f"{plan.n_slots} slots; llama.cpp takes {most}", where=ENGINE, remedy="take fewer slots")
    log = runtime_log(binding)
    log.clear()
    binding.llama_backend_init()
    params = binding.llama_model_default_params()
    params.n_gpu_layers = 0
    if available():
        # What is mapped from the file cannot lie in huge pages: a token took 13.5 ms of CPU time so, and 11.3 in them.
        params.load_mode = _READ_WHOLE
    with huge_pages():
        model = binding.llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        raise EngineError(
            f"llama.cpp cannot load the file{log.reason()}", where=str(path),
            remedy="check that its architecture is one this release of llama-cpp-python knows",
        )  # fmt: skip
    context = binding.llama_init_from_model(model, _context_params(binding, plan, threads, step_tokens))
    if not context:
        binding.llama_model_free(model)
        raise EngineError(
            f"llama.cpp cannot make a context of {plan.n_slots} slots of {plan.slot_tokens} tokens{log.reason()}",
            where=str(path), remedy="take fewer slots or a shorter context",
        )  # fmt: skip
    vocab_size = int(binding.llama_vocab_n_tokens(binding.llama_model_get_vocab(model)))
    window = int(binding.llama_model_n_swa(model))
    return Opened(binding, model, context, binding.llama_get_memory(context), vocab_size, window)


def _context_params(binding: Binding, plan: MemoryPlan, threads: int, step_tokens: int) -> Any:
    params = binding.llama_context_default_params()
    params.n_ctx = plan.n_slots * plan.slot_tokens
    params.n_seq_max = plan.n_slots
    params.n_batch = params.n_ubatch = step_tokens
    params.n_threads = params.n_threads_batch = threads
    params.flash_attn_type = _FLASH_ATTENTION
    # A buffer a sequence: what others hold neither costs time nor changes the order of sums.
    params.kv_unified = False
    # Layers with a window keep all of a sequence, so that its end can be taken back.
    params.swa_full = True
    params.offload_kqv = params.op_offload = False
    params.no_perf = True
    return params


def _check_file(path: Path) -> None:
    where = str(path)
    if not path.is_file():
        raise ModelFormatError("no such file" if not path.exists() else "not a file", where=where)
    if is_lfs_pointer(path):
        raise ModelFormatError("a Git LFS pointer, not the file itself", where=where, remedy="run `git lfs pull`")
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ModelFormatError("no GGUF file", where=where, remedy="copy or convert the file again")
