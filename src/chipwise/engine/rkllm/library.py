"""RkllmLibrary: librkllmrt.so with the types of its functions, and the check that it is of a release known here."""

from __future__ import annotations

import ctypes

from chipwise.engine.rkllm.structs import (
    API,
    Callbacks,
    InferParam,
    Input,
    Param,
    RoomyParam,
)
from chipwise.errors import DependencyError, EngineError

DEFAULT_NAME = "librkllmrt.so"
_REMEDY = (
    "put librkllmrt.so of Rockchip's rknn-llm (rkllm-runtime/Linux/librkllm_api/aarch64) into /usr/lib, or give its "
    "path as the option library"
)
_HANDLE, _TEXT, _INTS = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int)
_INPUT, _INFER = ctypes.POINTER(Input), ctypes.POINTER(InferParam)
_ARGUMENTS = {
    "rkllm_init": [ctypes.POINTER(_HANDLE), ctypes.POINTER(Param), ctypes.POINTER(Callbacks)],
    "rkllm_run": [_HANDLE, _INPUT, _INFER, ctypes.c_void_p],
    "rkllm_run_async": [_HANDLE, _INPUT, _INFER, ctypes.c_void_p],
    "rkllm_abort": [_HANDLE],
    "rkllm_is_running": [_HANDLE],
    "rkllm_clear_kv_cache": [_HANDLE, ctypes.c_int, _INTS, _INTS],
    "rkllm_get_kv_cache_size": [_HANDLE, _INTS],
    "rkllm_load_prompt_cache": [_HANDLE, _TEXT],
    "rkllm_release_prompt_cache": [_HANDLE],
    "rkllm_destroy": [_HANDLE],
}


class RkllmLibrary:
    """The functions of rkllm.h that are used here. All but ``default_param`` return 0 for success."""

    def __init__(self, name: str = DEFAULT_NAME) -> None:
        """Load it.

        Args:
            name: Its path, or a name for the dynamic linker.

        Raises:
            DependencyError: It cannot be loaded, or is no librkllmrt.so.
        """
        self.name = name
        try:
            functions = ctypes.CDLL(name)
            for function, arguments in _ARGUMENTS.items():
                found = getattr(functions, function)
                found.argtypes, found.restype = arguments, ctypes.c_int
            functions.rkllm_createDefaultParam.argtypes = []
            functions.rkllm_createDefaultParam.restype = RoomyParam
        except AttributeError as e:  # one of the functions
            raise DependencyError(
                f"no librkllmrt.so of release 1.2.1 or newer ({e})", where=name, remedy=_REMEDY
            ) from e
        except OSError as e:
            raise DependencyError(f"librkllmrt.so cannot be loaded ({e})", where=name, remedy=_REMEDY) from e
        self.functions = functions

    def default_param(self, *, trust_layout: bool = False) -> Param:
        """The library's default parameters.

        What lies in the bytes that release 1.3 reserves tells a library of another release: an older one has pointers
        and its extended parameters there, of which the number of batches, 1, is never zero.

        Args:
            trust_layout: Leave that check out.

        Raises:
            EngineError: The library lays its parameters out in another way.
        """
        param: Param = self.functions.rkllm_createDefaultParam().param
        if not trust_layout and any(param.extend_param.reserved):
            raise EngineError(
                f"not librkllmrt.so of release {'.'.join(map(str, API))}: its parameters are laid out in another way",
                where=self.name,
                remedy=_REMEDY + "; the model must come from rkllm-toolkit of the same release",
            )
        return param
