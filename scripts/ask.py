"""Ask a served bundle a question and print the answer as it comes. Plain Python: any OpenAI client does the same."""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections.abc import Iterator


def stream(base_url: str, question: str, max_tokens: int = 64) -> Iterator[str]:
    """The pieces of the answer to a chat of one message."""
    with urllib.request.urlopen(f"{base_url}/v1/models", timeout=10) as response:
        model = json.load(response)["data"][0]["id"]
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
    }
    request = urllib.request.Request(
        f"{base_url}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        for line in response:
            data = line.decode().removeprefix("data:").strip()
            if data == "[DONE]":
                return
            if data:
                for choice in json.loads(data)["choices"]:
                    yield choice["delta"].get("content") or ""


def main() -> int:
    """Print the answer, then how long the first piece and the whole took."""
    if len(sys.argv) != 3:
        print("usage: ask.py BASE_URL QUESTION", file=sys.stderr)
        return 2
    start = time.monotonic()
    first_s = None
    pieces = 0
    for piece in stream(sys.argv[1], sys.argv[2]):
        if piece and first_s is None:
            first_s = time.monotonic() - start
        pieces += bool(piece)
        print(piece, end="", flush=True)
    whole_s = time.monotonic() - start
    if first_s is None:
        print("error: the server answered nothing", file=sys.stderr)
        return 1
    print(f"\n({pieces} pieces; the first after {first_s:.2f} s, all after {whole_s:.2f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
