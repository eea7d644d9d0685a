"""Exact-match accuracy of the home-agent model on held-out cases: python evaluate.py [cases] [folder]."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from chipwise.verify.domains import DOMAINS, DomainCase, generate

FOLDER = Path(__file__).parent
BATCH = 64
NEW_TOKENS = 64
HELD_OUT_SEED = 7


def answers(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, cases: Sequence[DomainCase]) -> dict[str, str]:
    """The greedy answer to each case, by case id. Prompts of one length share a batch, so none is padded."""
    by_length: dict[int, list[tuple[str, list[int]]]] = defaultdict(list)
    for case in cases:
        text = tokenizer.apply_chat_template(case.messages, add_generation_prompt=True, tokenize=False)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        by_length[len(ids)].append((case.id, ids))
    said: dict[str, str] = {}
    for group in by_length.values():
        for start in range(0, len(group), BATCH):
            part = group[start : start + BATCH]
            prompts = torch.tensor([ids for _, ids in part])
            with torch.inference_mode():
                out = model.generate(
                    prompts, attention_mask=torch.ones_like(prompts), do_sample=False, max_new_tokens=NEW_TOKENS
                )
            texts = tokenizer.batch_decode(out[:, prompts.shape[1] :], skip_special_tokens=True)
            said.update((name, text) for (name, _), text in zip(part, texts, strict=True))
    return said


def accuracy(
    model: LlamaForCausalLM, folder: Path, cases_per_domain: int, seed: int = HELD_OUT_SEED
) -> dict[str, object]:
    """Share of answers equal to the expected text, overall and per domain and language."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    cases = [case for domain in DOMAINS for case in generate(domain, cases_per_domain, seed, "heldout")]
    said = answers(model, tokenizer, cases)
    right: dict[str, list[bool]] = defaultdict(list)
    for case in cases:
        right[f"{case.domain}/{case.lang}"].append(said[case.id] == case.expected)
    wrong = [(case.messages, case.expected, said[case.id]) for case in cases if said[case.id] != case.expected]
    shares = {name: round(sum(values) / len(values), 4) for name, values in sorted(right.items())}
    share = round(1 - len(wrong) / len(cases), 4)
    return {"cases": len(cases), "exact_match": share, "by_part": shares, "wrong": wrong}


def stored_model(folder: Path) -> LlamaForCausalLM:
    """The model as stored, its float16 weights run in fp32."""
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


if __name__ == "__main__":
    torch.set_num_threads(2)
    CASES = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    PLACE = Path(sys.argv[2]) if len(sys.argv) > 2 else FOLDER
    result = accuracy(stored_model(PLACE), PLACE, CASES)
    for line in result.pop("wrong"):
        print(json.dumps(line, ensure_ascii=False))
    print(json.dumps(result, indent=1))
