"""llama.cpp's C interface without llama.cpp: the functions, structures and return codes that the engine uses.

A file is the four letters GGUF and JSON: ``vocab`` tokens; ``slope`` as in NullOptions; ``results``, what calls of
llama_decode return by number; ``abort``, a token at which the process ends as GGML_ASSERT ends it; ``nan``, one that
spoils its row's logits; ``window``, as of sliding layers; ``cells``, how many tokens a sequence really has room for.
What the model says is the null engine's: it depends on every token that a sequence holds, so a test sees when it holds
others than it should.
"""

from __future__ import annotations

import ctypes
import json
import os
from itertools import count

import numpy as np

from chipwise.engine.null import NullOptions, NullSession

_MAGIC = 0x67676A71
_PAD = 256

llama_log_callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class llama_batch(ctypes.Structure):
    _fields_ = [
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.POINTER(ctypes.c_int32)),
        ("embd", ctypes.POINTER(ctypes.c_float)),
        ("pos", ctypes.POINTER(ctypes.c_int32)),
        ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
        ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    ]


class llama_model_params(ctypes.Structure):
    _fields_ = [("n_gpu_layers", ctypes.c_int32), ("load_mode", ctypes.c_int)]


class llama_context_params(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("n_ctx", "n_batch", "n_ubatch", "n_seq_max")),
        *((name, ctypes.c_int32) for name in ("n_threads", "n_threads_batch", "flash_attn_type")),
        *((name, ctypes.c_bool) for name in ("offload_kqv", "no_perf", "op_offload", "swa_full", "kv_unified")),
    ]


class _Model:
    def __init__(self, settings: dict) -> None:
        self.settings = settings
        self.vocab = settings.get("vocab", 256)


class _Context:
    def __init__(self, model: _Model, params: llama_context_params) -> None:
        if params.kv_unified:
            raise AssertionError("the engine wants a buffer a sequence")
        size = params.n_ctx // params.n_seq_max
        self.model, self.n_batch, self.n_seq_max = model, params.n_batch, params.n_seq_max
        self.n_ctx_seq = -(-size // _PAD) * _PAD
        self.cells = min(self.n_ctx_seq, model.settings.get("cells", self.n_ctx_seq))
        self.threads = params.n_threads
        null = NullOptions(vocab_size=model.vocab, slope=model.settings.get("slope", 1.0))
        self.sequences = NullSession(self.n_seq_max, self.n_ctx_seq, null)
        self.logits = (ctypes.c_float * 0)()
        self.calls = 0
        self.batches: list[list[tuple[int, int]]] = []
        """What each call brought: sequence and position of every token."""


_objects: dict[int, object] = {}
_numbers = count(1)
_log = None
load_modes: list[int] = []
"""How files were loaded."""
defaults: dict = {}
"""The settings of files that have none."""


def _keep(thing: object) -> int:
    number = next(_numbers)
    _objects[number] = thing
    return number


def context_of(pointer: int) -> _Context:
    """What is behind a pointer, for tests."""
    return _objects[pointer]


def alive() -> int:
    """How many models and contexts were not freed, for tests."""
    return len(_objects)


def _say(level: int, text: str) -> None:
    if _log is not None:
        _log(level, text.encode(), None)


def llama_log_set(callback, user_data) -> None:
    global _log
    _log = callback


def llama_backend_init() -> None:
    pass


def llama_max_parallel_sequences() -> int:
    return 256


def llama_model_default_params() -> llama_model_params:
    return llama_model_params(n_gpu_layers=-1, load_mode=-1)


def llama_model_load_from_file(path: bytes, params: llama_model_params) -> int | None:
    load_modes.append(params.load_mode)
    with open(path, "rb") as file:
        text = file.read()[4:]
    if text.startswith(b"unknown"):
        _say(3, "llama_model_load: error loading model: unknown model architecture: 'x'\n")
        _say(3, "llama_model_load_from_file_impl: failed to load model\n")
        return None
    # A real GGUF file has no settings of its own.
    return _keep(_Model(json.loads(text) if text.startswith(b"{") else dict(defaults)))


def llama_model_free(model: int) -> None:
    del _objects[model]


def llama_model_get_vocab(model: int) -> int:
    return model


def llama_vocab_n_tokens(vocab: int) -> int:
    return _objects[vocab].vocab


def llama_model_n_swa(model: int) -> int:
    return _objects[model].settings.get("window", 0)


def llama_context_default_params() -> llama_context_params:
    return llama_context_params(n_ctx=512, n_batch=2048, n_ubatch=512, n_seq_max=1, kv_unified=True)


def llama_init_from_model(model: int, params: llama_context_params) -> int | None:
    if _objects[model].settings.get("no_context"):
        _say(3, "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache\n")
        return None
    return _keep(_Context(_objects[model], params))


def llama_free(context: int) -> None:
    del _objects[context]


def llama_n_ctx_seq(context: int) -> int:
    return _objects[context].n_ctx_seq


def llama_get_memory(context: int) -> int:
    return context


def _assert(condition: bool, text: str) -> None:
    """GGML_ASSERT: the process ends."""
    if not condition:
        os.write(2, f"GGML_ASSERT({text}) failed\n".encode())
        os.abort()


def llama_decode(pointer: int, batch: llama_batch) -> int:
    context = _objects[pointer]
    _assert(batch.n_tokens <= context.n_batch, "n_tokens_all <= cparams.n_batch")
    result = context.model.settings.get("results", {}).get(str(context.calls), 0)
    context.calls += 1
    n = batch.n_tokens
    tokens, positions = batch.token[:n], batch.pos[:n]
    slots = [batch.seq_id[i][0] for i in range(n)]
    wanted = [i for i in range(n) if batch.logits[i]]
    if reason := _refusal(context, tokens, slots, positions, batch):
        _say(3, f"init: {reason}\n")
        return -1
    if any(position >= context.cells for position in positions):
        _say(2, f"decode: failed to find a memory slot for batch of size {n}\n")
        return 1
    if result:
        _say(3, "graph_compute: the step failed as told\n")
        if result == 1 or result == -1:
            return result
        n = n // 2  # some of it stays in memory
    _assert(context.model.settings.get("abort") not in tokens, "the token is not the one that ends it")
    context.batches.append(list(zip(slots, positions, strict=True)))
    rows = []
    for i in range(n):
        slot = context.sequences._slots[slots[i]]
        slot.extend(tokens[i])
        if i in wanted:
            row = np.empty(context.model.vocab, np.float32)
            context.sequences._write(slot, row)
            rows.append(row)
    if result:
        return result
    nan = {slot for slot, token in zip(slots, tokens, strict=True) if token == context.model.settings.get("nan")}
    for i, row in zip(wanted, rows, strict=True):
        if slots[i] in nan:
            row[:] = np.nan
    logits = np.concatenate(rows)
    context.logits = (ctypes.c_float * len(logits))(*logits)
    return 0


def _refusal(context, tokens, slots, positions, batch) -> str:
    nexts: dict[int, int] = {}
    for i, (token, slot, position) in enumerate(zip(tokens, slots, positions, strict=True)):
        if not 0 <= token < context.model.vocab:
            return f"invalid token[{i}] = {token}"
        if batch.n_seq_id[i] != 1 or not 0 <= slot < context.n_seq_max:
            return f"invalid seq_id[{i}] = {slot}"
        if position != nexts.get(slot, len(context.sequences.held(slot))):
            return f"the tokens of sequence {slot} in the input batch have inconsistent sequence positions"
        nexts[slot] = position + 1
    return "" if tokens else "n_tokens == 0"


def llama_get_logits(context: int):
    return ctypes.cast(_objects[context].logits, ctypes.POINTER(ctypes.c_float))


def llama_memory_seq_rm(memory: int, slot: int, start: int, end: int) -> bool:
    held = _objects[memory].sequences._slots[slot]
    assert end < 0, "the engine takes back ends only"
    if _objects[memory].model.settings.get("recurrent") and start > 0 and start < len(held.tokens):
        return False
    held.cut(max(0, start))
    return True


def llama_memory_seq_cp(memory: int, source: int, target: int, start: int, end: int) -> None:
    _assert(start <= 0 and end <= 0, "is_full")
    slots = _objects[memory].sequences._slots
    slots[target].cut(0)
    for token in slots[source].tokens:
        slots[target].extend(token)


def llama_memory_seq_pos_max(memory: int, slot: int) -> int:
    return len(_objects[memory].sequences.held(slot)) - 1


def llama_state_seq_get_size(context: int, slot: int) -> int:
    _assert(not _objects[context].model.settings.get("window"), "the state is whole")
    return 9 + 4 * len(_objects[context].sequences.held(slot))


def llama_state_seq_get_data(context: int, place, size: int, slot: int) -> int:
    state = np.array([_MAGIC, *_objects[context].sequences.held(slot)], np.uint32).tobytes() + b"end.."
    ctypes.memmove(place, state, min(size, len(state)))
    return len(state) if size >= len(state) else 0


def llama_state_seq_set_data(context: int, place, size: int, slot: int) -> int:
    words = np.frombuffer(ctypes.string_at(place, size // 4 * 4), np.uint32)
    if words[0] != _MAGIC:
        _say(3, "state_seq_set_data: error loading state: wrong sequence state magic\n")
        return 0
    held = _objects[context].sequences._slots[slot]
    held.cut(0)
    end = bytes(ctypes.string_at(place, size)).index(b"end..")
    for token in words[1 : end // 4].tolist():
        held.extend(token)
    return size
