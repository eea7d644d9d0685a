"""Opening a .rkllm file, with every failure in words."""

from __future__ import annotations

import ctypes
import logging
from pathlib import Path

from chipwise.engine.captured_output import captured_output
from chipwise.engine.rkllm import init_log
from chipwise.engine.rkllm.init_log import InitFacts
from chipwise.engine.rkllm.library import RkllmLibrary
from chipwise.engine.rkllm.settings import RkllmSettings
from chipwise.engine.rkllm.structs import API, Callbacks, Param
from chipwise.engine.rknn.runtime_log import release
from chipwise.errors import EngineError, ModelFormatError
from chipwise.files import is_lfs_pointer

_log = logging.getLogger(__name__)

# It prints this also where it returns 0 (rknn-llm issues 129 and 156).
_FAILED_ANYWAY = ("rknn_init fail", "load model file error", "failed to load model")


def open_handle(
    library: RkllmLibrary, path: Path, settings: RkllmSettings, callbacks: Callbacks
) -> tuple[ctypes.c_void_p, InitFacts]:
    """Load a model.

    Args:
        library: The runtime.
        path: The .rkllm file.
        settings: How to open it.
        callbacks: What the runtime calls; it must live as long as the handle.

    Returns:
        The handle, and what the runtime said of itself and the model.

    Raises:
        ModelFormatError: The file is missing, empty, or a Git LFS pointer.
        EngineError: The library is of another release, or cannot load the model.
    """
    _check_file(path)
    param = _param(library, path, settings)
    handle = ctypes.c_void_p()
    with captured_output() as output:
        status = library.functions.rkllm_init(ctypes.byref(handle), ctypes.byref(param), ctypes.byref(callbacks))
    for line in output.lines:
        _log.debug("%s", line)
    if status != 0 or not handle.value or any(line in output.text for line in _FAILED_ANYWAY):
        # A handle of a failed init is not destroyed: rknn-llm issue 522 is a crash.
        found = init_log.reason(output.text)
        raise EngineError(
            f"librkllmrt.so cannot open the model: {found.what if found else f'it returned {status}'}",
            where=str(path),
            remedy=found.remedy if found else "see dmesg for lines of RKNPU",
        )
    facts = init_log.facts(output.text)
    ours = release(facts.runtime_version)
    if ours is not None and ours[:2] != API and not settings.trust_layout:
        library.functions.rkllm_destroy(handle)
        raise EngineError(
            f"librkllmrt.so is of release {facts.runtime_version}, and chipwise knows {'.'.join(map(str, API))}",
            where=library.name,
            remedy="replace it, and convert the model with rkllm-toolkit of the same release",
        )
    return handle, facts


def _param(library: RkllmLibrary, path: Path, settings: RkllmSettings) -> Param:
    param = library.default_param(trust_layout=settings.trust_layout)
    param.model_path = str(path).encode()
    param.max_context_len, param.max_new_tokens = settings.context, settings.answer_tokens
    param.skip_special_token, param.ignore_eos_token = not settings.keep_special_tokens, False
    param.is_async = False
    sampling = settings.sampling.to_struct()
    for name in (field[0] for field in sampling._fields_):
        setattr(param, name, getattr(sampling, name))
    if settings.embed_flash is not None:
        param.extend_param.embed_flash = settings.embed_flash
    return param


def _check_file(path: Path) -> None:
    where = str(path)
    if not path.is_file():
        raise ModelFormatError("no such file" if not path.exists() else "not a file", where=where)
    if is_lfs_pointer(path):
        raise ModelFormatError("a Git LFS pointer, not the file itself", where=where, remedy="run `git lfs pull`")
    if path.stat().st_size == 0:
        raise ModelFormatError("it is empty", where=where, remedy="copy or convert the file again")
