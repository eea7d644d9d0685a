"""A program of its own that hands tensors to a server in shared memory; prints what it found as JSON."""

from __future__ import annotations

import json
import sys
from multiprocessing import shared_memory

import httpx
import numpy as np


def main(url: str) -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
    y = np.array([5, -(2**60)], np.int64)
    memory = shared_memory.SharedMemory(create=True, size=4096)
    try:
        with httpx.Client(base_url=url, verify=False) as client:
            print(json.dumps(talk(client, memory, x, y)))
    finally:
        memory.close()
        memory.unlink()


def talk(client: httpx.Client, memory: shared_memory.SharedMemory, x: np.ndarray, y: np.ndarray) -> dict:
    body = {"key": f"/{memory.name}", "offset": 64, "byte_size": 4032}
    registered = client.post("/v2/systemsharedmemory/region/mine/register", json=body)
    memory.buf[64 : 64 + x.nbytes] = x.tobytes()
    memory.buf[256 : 256 + y.nbytes] = y.tobytes()

    def place(offset: int, size: int) -> dict:
        return {
            "shared_memory_region": "mine",
            "shared_memory_offset": offset - 64,
            "shared_memory_byte_size": size,
        }

    inputs = [
        {"name": "x", "shape": [4, 3], "datatype": "FP32", "parameters": place(64, x.nbytes)},
        {"name": "y", "shape": [2], "datatype": "INT64", "parameters": place(256, y.nbytes)},
    ]
    outputs = [
        {"name": "x_out", "parameters": place(1024, 512)},
        {"name": "y_out", "parameters": place(2049, y.nbytes)},
    ]
    answer = client.post("/v1/infer", json={"inputs": inputs, "outputs": outputs})
    plain = [
        {"name": "x", "shape": [4, 3], "datatype": "FP32", "data": x.ravel().tolist()},
        {"name": "y", "shape": [2], "datatype": "INT64", "data": y.tolist()},
    ]
    sent = client.post("/v1/infer", json={"inputs": plain}).json()["outputs"]
    return {
        "registered": registered.status_code,
        "answer": answer.json(),
        "found": [
            np.frombuffer(bytes(memory.buf[1024 : 1024 + x.nbytes]), np.float32).tolist(),
            np.frombuffer(bytes(memory.buf[2049 : 2049 + y.nbytes]), np.int64).tolist(),
        ],
        "sent": [one["data"] for one in sent],
    }


if __name__ == "__main__":
    main(sys.argv[1])
