"""The structures of rkllm.h, as release 1.3.0 lays them out (airockchip/rknn-llm, commit 878f936, 2026-06-17).

On a 64-bit ABI, in bytes:

==========================  =====  =============================================================================
structure                   size   what older releases have otherwise
==========================  =====  =============================================================================
RKLLMExtendParam            120    1.2.0 has neither n_batch nor use_cross_attn, in the same size
RKLLMParam                  184    up to 1.2.3: no ignore_eos_token, and three pointers before extend_param (208)
RKLLMInput                  160    up to 1.2.3: a smaller multimodal input; 1.2.0 has no role, no enable_thinking
RKLLMInferParam             40     up to 1.2.3: no sampling_params, no max_new_tokens (32)
RKLLMResult                 72     1.2.0 has no perf
RKLLMCallback               48     new in 1.3.0: until then ``rkllm_init`` took the function itself
==========================  =====  =============================================================================

A library of another release reads a pointer where there is none: rknn-llm issue 509 is such a crash.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Final

API: Final = (1, 3)
"""The releases these structures are of."""


class CallState(IntEnum):
    """What a callback is told (``LLMCallState``)."""

    NORMAL = 0
    WAITING = 1  # for the rest of a UTF-8 character
    FINISH = 2
    ERROR = 3


class InputType(IntEnum):
    """What a run is fed (``RKLLMInputType``)."""

    PROMPT = 0
    TOKEN = 1


class InferMode(IntEnum):
    """What a run returns (``RKLLMInferMode``)."""

    GENERATE = 0
    LOGITS = 2


CONTINUE: Final = 0
PAUSE: Final = 1
"""What a callback returns."""


class ExtendParam(ctypes.Structure):
    """``RKLLMExtendParam``."""

    _fields_ = [
        ("base_domain_id", ctypes.c_int32),
        ("embed_flash", ctypes.c_int8),
        ("enabled_cpus_num", ctypes.c_int8),
        ("enabled_cpus_mask", ctypes.c_uint32),
        ("n_batch", ctypes.c_uint8),
        ("use_cross_attn", ctypes.c_int8),
        ("reserved", ctypes.c_uint8 * 104),
    ]


class Param(ctypes.Structure):
    """``RKLLMParam``."""

    _fields_ = [
        ("model_path", ctypes.c_char_p),
        ("max_context_len", ctypes.c_int32),
        ("max_new_tokens", ctypes.c_int32),
        ("top_k", ctypes.c_int32),
        ("n_keep", ctypes.c_int32),
        ("top_p", ctypes.c_float),
        ("temperature", ctypes.c_float),
        ("repeat_penalty", ctypes.c_float),
        ("frequency_penalty", ctypes.c_float),
        ("presence_penalty", ctypes.c_float),
        ("mirostat", ctypes.c_int32),
        ("mirostat_tau", ctypes.c_float),
        ("mirostat_eta", ctypes.c_float),
        ("skip_special_token", ctypes.c_bool),
        ("ignore_eos_token", ctypes.c_bool),
        ("is_async", ctypes.c_bool),
        ("extend_param", ExtendParam),
    ]


class RoomyParam(ctypes.Structure):
    """``RKLLMParam`` with room behind it, into which a library of another release may write what it returns."""

    _fields_ = [("param", Param), ("room", ctypes.c_uint8 * 256)]


class TokenInput(ctypes.Structure):
    """``RKLLMTokenInput``."""

    _fields_ = [("input_ids", ctypes.POINTER(ctypes.c_int32)), ("n_tokens", ctypes.c_size_t)]


class InputUnion(ctypes.Union):
    """The union in ``RKLLMInput``; its largest member, the multimodal input, is 18 words, of which none is used."""

    _fields_ = [
        ("prompt_input", ctypes.c_char_p),
        ("token_input", TokenInput),
        ("multimodal_input", ctypes.c_size_t * 18),
    ]


class Input(ctypes.Structure):
    """``RKLLMInput``."""

    _fields_ = [
        ("role", ctypes.c_char_p),
        ("enable_thinking", ctypes.c_bool),
        ("input_type", ctypes.c_int),
        ("data", InputUnion),
    ]


class PromptCacheParam(ctypes.Structure):
    """``RKLLMPromptCacheParam``."""

    _fields_ = [("save_prompt_cache", ctypes.c_int), ("prompt_cache_path", ctypes.c_char_p)]


class SamplingParam(ctypes.Structure):
    """``RKLLMSamplingParam``."""

    _fields_ = [
        ("top_k", ctypes.c_int32),
        ("top_p", ctypes.c_float),
        ("temperature", ctypes.c_float),
        ("repeat_penalty", ctypes.c_float),
        ("frequency_penalty", ctypes.c_float),
        ("presence_penalty", ctypes.c_float),
        ("mirostat", ctypes.c_int32),
        ("mirostat_tau", ctypes.c_float),
        ("mirostat_eta", ctypes.c_float),
    ]


class InferParam(ctypes.Structure):
    """``RKLLMInferParam``."""

    _fields_ = [
        ("mode", ctypes.c_int),
        ("lora_params", ctypes.c_void_p),
        ("prompt_cache_params", ctypes.POINTER(PromptCacheParam)),
        ("sampling_params", ctypes.POINTER(SamplingParam)),
        ("keep_history", ctypes.c_int),
        ("max_new_tokens", ctypes.c_int32),
    ]


class Rows(ctypes.Structure):
    """``RKLLMResultLastHiddenLayer`` and ``RKLLMResultLogits``: rows of numbers, one a token."""

    _fields_ = [("values", ctypes.POINTER(ctypes.c_float)), ("width", ctypes.c_int), ("num_tokens", ctypes.c_int)]


class PerfStat(ctypes.Structure):
    """``RKLLMPerfStat``."""

    _fields_ = [
        ("prefill_time_ms", ctypes.c_float),
        ("prefill_tokens", ctypes.c_int),
        ("generate_time_ms", ctypes.c_float),
        ("generate_tokens", ctypes.c_int),
        ("memory_usage_mb", ctypes.c_float),
    ]


class Result(ctypes.Structure):
    """``RKLLMResult``."""

    _fields_ = [
        ("text", ctypes.c_char_p),
        ("token_id", ctypes.c_int32),
        ("last_hidden_layer", Rows),
        ("logits", Rows),
        ("perf", PerfStat),
    ]


ResultCallback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Result), ctypes.c_void_p, ctypes.c_int)
"""``LLMResultCallback``."""


class Callbacks(ctypes.Structure):
    """``RKLLMCallback``; the tokenizer's and the embedding's, which models bring themselves, are left empty."""

    _fields_ = [
        ("result_callback", ResultCallback),
        ("result_userdata", ctypes.c_void_p),
        ("tokenizer_callback", ctypes.c_void_p),
        ("tokenizer_userdata", ctypes.c_void_p),
        ("embed_callback", ctypes.c_void_p),
        ("embed_userdata", ctypes.c_void_p),
    ]
