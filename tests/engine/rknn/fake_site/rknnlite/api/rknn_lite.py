"""A stand-in for rknn-toolkit-lite2 2.5.0: its interface, its return codes, and the lines it prints.

It computes for real: a test says which function computes a file. Faults are those people reported, by name.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from pathlib import Path

import numpy as np

RUNTIME = "2.5.0"
DRIVER = "0.9.8"

# File content -> what computes it: a function of the list of inputs, as values, that returns the list of outputs.
MODELS = {}
FAULT = {"name": None}
MADE = []

_E = "E RKNN: [14:34:00.922] "
_INIT = {
    "old_runtime": ([_E + "6, 1", _E + "Invalid RKNN model version 6", _E + "rknn_init, load model failed!"],
                    "RKNN init failed. error code: RKNN_ERR_FAIL"),
    "not_rknn": ([_E + "parseRKNN from buffer: Invalid RKNN format!", _E + "rknn_init, load model failed!"],
                 "RKNN init failed. error code: RKNN_ERR_MODEL_INVALID"),
    "other_chip": ([_E + "The rknn model does not match the RKNPU hardware version!",
                    _E + "rknn_init, load model failed!"], "RKNN init failed. error code: RKNN_ERR_FAIL"),
    "no_driver": ([_E + "failed to open rknpu module, need to insmod rknpu dirver!",
                   _E + "failed to open rknn device!"], "RKNN init failed. error code: RKNN_ERR_FAIL"),
    "no_memory": ([_E + "failed to allocate handle, ret: -1, errno: 12, errstr: Cannot allocate memory"],
                  "RKNN init failed. error code: RKNN_ERR_MALLOC_FAIL"),
    "odd": ([], "RKNN init failed. error code: RKNN_ERR_CTX_INVALID"),
}  # fmt: skip
_LIBRARY = {
    "no_library": "Can not find dynamic library on RK3588!",
    "no_library64": "/usr/lib64/librknnrt.so: cannot open shared object file: No such file or directory",
    "old_library": "/usr/lib64/librknnrt.so: undefined symbol: rknn_set_core_mask",
    "container": "Unsupported run platform: Linux aarch64",
}


class RKNNLite:
    NPU_CORE_AUTO = 0
    NPU_CORE_0 = 1
    NPU_CORE_1 = 2
    NPU_CORE_2 = 4
    NPU_CORE_0_1 = 3
    NPU_CORE_0_1_2 = 7
    NPU_CORE_ALL = 0xFFFF

    def __init__(self, verbose=False, verbose_file=None):
        self.rknn_data = self.rknn_runtime = None
        self.core_mask = None
        self.released = 0
        self.asked = []
        self.busy = threading.Lock()
        MADE.append(self)
        print("W rknn-toolkit-lite2 version: " + RUNTIME, file=sys.stderr)

    def load_rknn(self, path, key_path=None):
        if not os.path.exists(path) or FAULT["name"] == "unreadable":
            print(f"E Invalid RKNN model path: {path}", file=sys.stderr)
            return -1
        self.rknn_data = Path(path).read_bytes()
        return 0

    def init_runtime(self, target=None, device_id=None, async_mode=False, core_mask=NPU_CORE_AUTO):
        fault = FAULT["name"]
        if fault == "pc":
            # What the real one does on x86: the message is formatted after it was logged.
            print("E RKNN Toolkit Lite2 does not support simulator, please specify the target: {}", file=sys.stderr)
            None.format("RK3588")
        if fault in _LIBRARY:
            return self._caught(Exception(_LIBRARY[fault]))
        runtime = "1.4.0" if fault == "old_runtime" else RUNTIME
        _c_line(f"I RKNN: [14:34:00.921] RKNN Runtime Information, librknnrt version: {runtime} (a10f@2022-09-09)")
        _c_line(f"I RKNN: [14:34:00.922] RKNN Driver Information, version: {DRIVER}")
        if fault in _INIT:
            lines, error = _INIT[fault]
            for line in lines:
                _c_line(line)
            return self._caught(Exception(error))
        if fault == "silent":
            return -1
        self.core_mask = core_mask
        self.rknn_runtime = MODELS[self.rknn_data]
        return 0

    def inference(
        self,
        inputs,
        data_type=None,
        data_format=None,
        inputs_pass_through=None,
        get_frame_id=False,
        reuse_outputs=False,
    ):
        if self.rknn_runtime is None:
            print("E Runtime environment is not inited, please call init_runtime to init it first!", file=sys.stderr)
            return None
        assert self.busy.acquire(blocking=False), "two threads run one context"
        try:
            self.asked.append((inputs, data_format, inputs_pass_through))
            return self._inference(inputs, data_format, inputs_pass_through)
        finally:
            self.busy.release()

    def _inference(self, inputs, data_format, inputs_pass_through):
        fault = FAULT["name"]
        if fault == "raises":
            raise ValueError("a bug of its own")
        if fault == "inputs":
            print("E Catch exception when setting inputs.", file=sys.stderr)
            self._caught(Exception("The input[0] need 4dims input, but 3dims input buffer feed."))
            return None
        if fault == "timeout":
            _c_line(_E + "failed to submit!, op id: 1, op name: Conv:a, flags: 0x5")
            self._caught(Exception("RKNN run failed. error code: RKNN_ERR_FAIL"))
            return None
        for array in inputs:
            if array.dtype.name not in ("int8", "uint8", "int16", "float16", "float32", "int32", "int64"):
                print(f"E Unsupported dtype {array.dtype}", file=sys.stderr)
                return None
            if array.ndim == 4 and not (data_format and data_format[0] == "nchw"):
                _c_line(_E + "rknn_set_input_shapes error, input name = x")
                self._caught(Exception("Set input shape failed. error code: RKNN_ERR_FAIL"))
                return None
        outputs = self.rknn_runtime(inputs, inputs_pass_through or [0] * len(inputs))
        if fault == "zeros":
            return [np.zeros_like(one) for one in outputs]
        if fault == "nan":
            return [np.full_like(one, np.nan) for one in outputs]
        if fault == "one_output_too_few":
            return outputs[:-1]
        if fault == "flat":
            return [one[..., :1] for one in outputs]
        return outputs

    def get_sdk_version(self):
        if self.rknn_runtime is None:
            return None
        line = "=" * 46
        return f"{line}\nRKNN VERSION:\n  API: {RUNTIME} (71720f3fc@2026-08-21T09:29:52)\n  DRV: {DRIVER}\n{line}\n"

    def release(self):
        self.released += 1
        self.rknn_runtime = None

    def _caught(self, error):
        print("E Catch exception when init runtime!", file=sys.stderr)
        trace = ["Traceback (most recent call last):\n", *traceback.format_exception_only(type(error), error)]
        print("E " + "".join(trace), file=sys.stderr)
        return -1


def _c_line(text):
    """Print as C does: past Python, on the process's own stderr."""
    os.write(2, (text + "\n").encode())
