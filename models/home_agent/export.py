"""Write what goes with the weights: python export.py CHECKPOINT [folder].

training.json (figures of the run), queries.jsonl (for calibration) and suite.jsonl (for scoring); the
two files share no text with each other or with the training data.
"""

from __future__ import annotations

import json
import platform
import sys
from datetime import date
from pathlib import Path

import tokenizers
import torch
import transformers
from evaluate import FOLDER, accuracy, stored_model
from train import Settings, build_model

from chipwise.verify.domains import DOMAINS, DomainCase, generate

QUERIES_PER_DOMAIN = 40
SUITE_PER_DOMAIN = 30
EXPORT_SEED = 101
EVALUATED_PER_DOMAIN = 500


def write_lines(path: Path, records: list[dict[str, object]]) -> None:
    """Write one JSON object a line."""
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    path.write_text(text, encoding="utf-8")


def suite_record(case: DomainCase) -> dict[str, object]:
    """A case as the suite file holds it."""
    return {
        "id": case.id,
        "messages": case.messages,
        "expected": case.expected,
        "keywords": list(case.keywords),
        "lang": case.lang,
        "domain": case.domain,
    }


def export_cases(folder: Path) -> None:
    """Write queries.jsonl and suite.jsonl from one draw of held-out cases, so that they are disjoint."""
    queries: list[dict[str, object]] = []
    suite: list[dict[str, object]] = []
    for domain in DOMAINS:
        cases = generate(domain, QUERIES_PER_DOMAIN + SUITE_PER_DOMAIN, EXPORT_SEED, "heldout")
        queries += [{"messages": case.messages} for case in cases[:QUERIES_PER_DOMAIN]]
        suite += [suite_record(case) for case in cases[QUERIES_PER_DOMAIN:]]
    write_lines(folder / "queries.jsonl", queries)
    write_lines(folder / "suite.jsonl", suite)


def export_figures(checkpoint: Path, folder: Path) -> None:
    """Measure the trained and the stored weights and write training.json."""
    state = torch.load(checkpoint)
    settings = Settings(**state["settings"])
    trained = build_model(settings)
    trained.load_state_dict(state["model"])
    measured = {
        "fp32_as_trained": accuracy(trained.eval(), folder, EVALUATED_PER_DOMAIN),
        "float16_as_stored": accuracy(stored_model(folder), folder, EVALUATED_PER_DOMAIN),
    }
    for result in measured.values():
        result.pop("wrong")
    log = state["log"]
    figures = {
        "date": date.today().isoformat(),
        "hardware": f"{settings.threads} {platform.machine()} CPU cores, shared with other work; bfloat16 autocast",
        "software": {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
        },
        "parameters": sum(weights.numel() for weights in trained.parameters()),
        "settings": state["settings"],
        "padded_tokens_seen": log[-1]["step"] * settings.batch_tokens,
        "wall_s": log[-1]["wall_s"],
        "final_loss": log[-1]["loss"],
        "accuracy": measured,
        "log": log[3::4],
    }
    (folder / "training.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(2)
    OUT = Path(sys.argv[2]) if len(sys.argv) > 2 else FOLDER
    export_cases(OUT)
    export_figures(Path(sys.argv[1]), OUT)
