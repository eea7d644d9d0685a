"""How far does each contestant drift from what the file says, on the same tokens?

    python -m benchmarks.drift

Speed without this says little: a model of other weights is another model. The file's values in float32 answer general
queries; every contestant gives its logits at the tokens of these answers. llama.cpp also runs the file as it is.
Writes results/drift.json.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.contestant import Contestant, Runner
from benchmarks.decode_prefill import gather
from benchmarks.machine import today
from benchmarks.model import built_bundle, cache, smollm2
from benchmarks.results import RESULTS, Drift, EngineDrift, save
from benchmarks.runners.protocol import Job
from benchmarks.traffic import gguf_traffic
from chipwise.build.texts import general_queries
from chipwise.bundle import open_bundle
from chipwise.engine import Batch
from chipwise.verify.generate import Answer, Prompt, generate
from chipwise.verify.metrics import PositionDrift, concatenate, drift, summarise

QUERIES = 24
_ANSWER_TOKENS = 20
_CONTEXT = 512

Asked = list[tuple[Prompt, Answer, np.ndarray]]


def reference_answers(bundle: Path) -> Asked:
    """Prompts, the float32 model's answers to them, and its logits at each of their tokens."""
    opened = open_bundle(bundle)
    tokenizer = opened.tokenizer
    if tokenizer is None:
        raise SystemExit(f"{bundle} has no tokenizer")
    queries = general_queries()[:QUERIES]
    prompts = [Prompt(tuple(query.tokens(tokenizer, opened.chat_template)), _ANSWER_TOKENS) for query in queries]
    session = opened.open_session(8, _CONTEXT, threads=2)
    answers = generate(session, prompts, eos_ids=())
    found = []
    for prompt, answer in zip(prompts, answers, strict=True):
        tokens = np.array([[*prompt.tokens, *answer.tokens[:-1]]], np.int64)
        logits = session.step(Batch(0, tokens, np.zeros(1, np.int64), "all")).logits[0]
        found.append((prompt, answer, logits[len(prompt.tokens) - 1 :].copy()))
    session.close()
    return found


def measure(contestant: Contestant, asked: Asked) -> EngineDrift:
    """One contestant on all answers."""
    parts: list[PositionDrift] = []
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(contestant.command(), Job(str(contestant.model), [1], 1, _CONTEXT, 2))
        try:
            for prompt, answer, ours in asked:
                theirs = runner.follow(prompt.tokens, answer.tokens, Path(folder) / "logits")
                parts.append(drift(ours, theirs, np.array(answer.tokens, np.int64)))
        finally:
            runner.kill()
    total = summarise(concatenate(parts))
    return EngineDrift(contestant.title, total.kl_mean_nats, total.top1_agreement, total.perplexity_ratio)


def _with_the_file_itself(contestants: Sequence[Contestant], gguf: Path) -> list[Contestant]:
    title = f"llama.cpp on the file itself ({gguf.stem.rpartition('.')[2]})"
    traffic = gguf_traffic(gguf)
    own = [Contestant(one.name, title, one.python, gguf, traffic) for one in contestants if one.name == "llamacpp"]
    return [*contestants, *own]


def main() -> int:
    """Measure and save."""
    gguf = smollm2()
    reference = cache(gguf) / "fp32"
    if not reference.exists():
        command = [
            sys.executable,
            "-m",
            "chipwise.cli.main",
            "build",
            str(gguf),
            "--target",
            "host",
            "--recipe",
            "fp32",
        ]
        subprocess.run([*command, "--cases", "4", "--output", str(reference)], check=True)
    asked = reference_answers(reference)
    contestants, _ = gather(gguf, built_bundle(gguf))
    engines = tuple(measure(one, asked) for one in _with_the_file_itself(contestants, gguf))
    positions = sum(len(answer.tokens) for _, answer, _ in asked)
    save(Drift(today(), gguf.stem, len(asked), positions, engines), RESULTS / "drift.json")
    for one in engines:
        print(f"{one.title:<45} KL {one.kl_mean_nats:.4f} nats, agreement {one.top1_agreement:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
