"""Train the home-agent decoder on generated commands: python train.py [steps] [checkpoint].

Early on, part of the turns are drills: a string of random tokens to be said back, which teaches copying
of every token at once, and bare rules, which teach the comparison. The commands alone teach both slowly.
Cases are packed into rows and masked from each other; later some rows are turns of one conversation. The
loss is taken on the answers' tokens. A checkpoint (outside the repository) lets an interrupted run go on.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch
from tokenizer import END_ID, PAD_ID, save_tokenizer, train_tokenizer
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

from chipwise.verify.domains import LANGUAGES, DomainCase, generate
from chipwise.verify.domains.case import ToolCall
from chipwise.verify.domains.condition import draw_condition
from chipwise.verify.domains.draw import Draw

FOLDER = Path(__file__).parent
CHUNK_CASES = {"home": 450, "vehicle": 450, "factory": 700, "camera": 450}  # in one chunk of the stream
IGNORE = -100
LOG_EVERY = 25  # steps
SAVE_EVERY = 250  # steps; a multiple of LOG_EVERY


@dataclass(frozen=True)
class Settings:
    """What a run is made of."""

    steps: int = 5000
    batch_tokens: int = 2048
    drill_share: float = 0.5  # of the turns, at the start
    drill_until: float = 0.45  # share of the run by which it has fallen to nothing
    talk_every: int = 4  # after the drills, one chunk in so many is packed as conversations
    learning_rate: float = 2e-3
    warmup_steps: int = 200
    weight_decay: float = 0.02
    threads: int = 2
    seed: int = 20261129
    vocab_size: int = 1536
    context: int = 512


class Turn(NamedTuple):
    """Token ids of one case, and labels that leave out all but the answer."""

    ids: list[int]
    labels: list[int]


class Batch(NamedTuple):
    """Ids and labels (rows, tokens), and an additive attention mask or None for a causal one."""

    ids: torch.Tensor
    labels: torch.Tensor
    mask: torch.Tensor | None


@dataclass(frozen=True)
class Run:
    """A training run under way; `log` holds {"step", "loss", "wall_s"} every few steps."""

    settings: Settings
    model: LlamaForCausalLM
    optimizer: torch.optim.Optimizer
    log: list[dict[str, float]] = field(default_factory=list)


def build_model(settings: Settings) -> LlamaForCausalLM:
    """A llama of 2.8 million parameters; every inner size is a multiple of 128."""
    config = LlamaConfig(
        vocab_size=settings.vocab_size,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=settings.context,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=END_ID,
        pad_token_id=PAD_ID,
        attn_implementation="eager",  # on short rows the fused CPU backward is the slower
    )
    return LlamaForCausalLM(config)


def turn(tokenizer: Tokenizer, case: DomainCase) -> Turn:
    """Token ids of one case as chat turns, and labels that leave out all but the answer."""
    text = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in case.messages)
    prompt = tokenizer.encode(text + "<|im_start|>assistant\n").ids
    answer = tokenizer.encode(case.expected + "<|im_end|>").ids
    after = tokenizer.encode("\n").ids
    return Turn(prompt + answer + after, [IGNORE] * len(prompt) + answer + [IGNORE] * len(after))


def echo(draw: Draw, tokenizer: Tokenizer) -> Turn:
    """A turn that asks for random tokens to be said back."""
    top = tokenizer.get_vocab_size() - 1
    digits = tokenizer.encode("0123456789").ids
    numeric = draw.chance(0.4)  # digits repeat within a string, so these are told apart by place alone
    span = [
        draw.choice(digits) if numeric and draw.chance(0.8) else draw.integer(END_ID + 1, top)
        for _ in range(draw.integer(3, 16))
    ]
    head = tokenizer.encode("<|im_start|>user\n").ids
    tail = tokenizer.encode("<|im_end|>\n<|im_start|>assistant\n").ids
    prompt = [*head, *span, *tail]
    return Turn([*prompt, *span, END_ID], [IGNORE] * len(prompt) + [*span, END_ID])


def decision(draw: Draw, tokenizer: Tokenizer) -> Turn:
    """A turn that asks for nothing but a rule's outcome."""
    condition, lang = draw_condition(draw, 30, 80), draw.choice(LANGUAGES)
    tool = draw.choice(("turn_on", "turn_off", "go_to", "photo"))
    text = f"{condition.reading} {condition.relation.name(lang)} {condition.limit}: {tool}"
    answer = condition.choose(ToolCall(tool)).text()
    return turn(tokenizer, DomainCase("", "", lang, [{"role": "user", "content": text}], answer, (), "tool_call"))


def turns(tokenizer: Tokenizer, settings: Settings, chunk: int, drill_share: float) -> list[Turn]:
    """One chunk of fresh training cases, with drills as the given share of all, shuffled."""
    seed = settings.seed + chunk
    cases = [case for domain, count in CHUNK_CASES.items() for case in generate(domain, count, seed, "train")]
    draw = Draw(f"chunk/{seed}")
    made = [turn(tokenizer, case) for case in cases]
    drills = int(len(made) * drill_share / (1 - drill_share))
    made += [(echo if draw.chance(0.6) else decision)(draw, tokenizer) for _ in range(drills)]
    return draw.sample(made, len(made))


def packed(chunk: list[Turn], row_tokens: int) -> list[list[Turn]]:
    """The turns of each row of at most `row_tokens`."""
    filled: list[list[Turn]] = [[]]
    length = 0
    for item in chunk:
        if length + len(item.ids) > row_tokens:
            filled.append([])
            length = 0
        filled[-1].append(item)
        length += len(item.ids)
    return filled


def as_batch(rows: list[list[Turn]], row_tokens: int, masked: bool) -> Batch:
    """Rows padded on the right; with a mask (rows, 1, row_tokens, row_tokens) that parts their turns."""
    ids = torch.full((len(rows), row_tokens), PAD_ID)
    labels = torch.full((len(rows), row_tokens), IGNORE)
    owner = torch.zeros((len(rows), row_tokens), dtype=torch.long)
    for row, items in enumerate(rows):
        start = 0
        for number, item in enumerate(items, 1):
            end = start + len(item.ids)
            ids[row, start:end] = torch.tensor(item.ids)
            labels[row, start:end] = torch.tensor(item.labels)
            owner[row, start:end] = number
            start = end
    if not masked:
        return Batch(ids, labels, None)
    allowed = (owner[:, :, None] == owner[:, None, :]).tril()
    return Batch(ids, labels, torch.zeros(allowed.shape).masked_fill(~allowed, -1e9)[:, None])


def batches(tokenizer: Tokenizer, settings: Settings, skip: int) -> Iterator[Batch]:
    """Endless batches of fresh cases; the first `skip` are passed over."""
    index = chunk = 0
    while True:
        chunk += 1
        done = index / settings.steps
        talking = done >= settings.drill_until and chunk % settings.talk_every == 0
        row_tokens = settings.context if talking else settings.context // 2
        share = max(0.0, settings.drill_share * (1 - done / settings.drill_until))
        rows = packed(turns(tokenizer, settings, chunk, share), row_tokens)
        size = settings.batch_tokens // row_tokens
        for start in range(0, len(rows) - size, size):
            index += 1
            if index > skip:
                yield as_batch(rows[start : start + size], row_tokens, masked=not talking)


def loss_of(model: LlamaForCausalLM, batch: Batch) -> torch.Tensor:
    """Mean cross-entropy over answer tokens; logits are computed for these alone."""
    hidden = model.model(input_ids=batch.ids, attention_mask=batch.mask, use_cache=False).last_hidden_state
    wanted = batch.labels[:, 1:]
    chosen = wanted != IGNORE
    logits = functional.linear(hidden[:, :-1][chosen], model.lm_head.weight)
    return functional.cross_entropy(logits.float(), wanted[chosen])


def build_optimizer(model: LlamaForCausalLM, settings: Settings) -> torch.optim.Optimizer:
    """AdamW; the norms' weights do not decay."""
    matrices = [weights for weights in model.parameters() if weights.ndim == 2]
    norms = [weights for weights in model.parameters() if weights.ndim != 2]
    groups = [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": norms, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.98), fused=True)


def rate_at(step: int, settings: Settings) -> float:
    """Learning-rate factor: linear warm-up, then cosine to 1 %."""
    if step < settings.warmup_steps:
        return (step + 1) / settings.warmup_steps
    done = (step - settings.warmup_steps) / max(1, settings.steps - settings.warmup_steps)
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done))


def save_model(model: LlamaForCausalLM, tokenizer: Tokenizer, settings: Settings, folder: Path) -> None:
    """Write the Hugging Face folder with float16 weights."""
    folder.mkdir(parents=True, exist_ok=True)
    copy = build_model(settings)
    copy.load_state_dict(model.state_dict())
    copy.half().save_pretrained(folder)
    weights = folder / "model.safetensors"
    weights.chmod(0o644)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["rope_theta"] = config["rope_parameters"]["rope_theta"]  # where readers of older folders look
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    generation = {"do_sample": False, "eos_token_id": END_ID, "pad_token_id": PAD_ID, "max_new_tokens": 64}
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n", encoding="utf-8")
    save_tokenizer(tokenizer, folder, settings.context)


def one_step(run: Run, batch: Batch) -> float:
    """One update; returns the loss before it."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_of(run.model, batch)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
    run.optimizer.step()
    run.optimizer.zero_grad()
    return loss.item()


def save_checkpoint(run: Run, checkpoint: Path) -> None:
    """Write the run's state, then put it in the place of the old one."""
    state = {
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "log": run.log,
        "settings": asdict(run.settings),
    }
    part = checkpoint.with_suffix(".part")
    torch.save(state, part)
    part.replace(checkpoint)


def resume(run: Run, checkpoint: Path) -> None:
    """Take the state of an interrupted run."""
    state = torch.load(checkpoint)
    run.model.load_state_dict(state["model"])
    run.optimizer.load_state_dict(state["optimizer"])
    run.log.extend(state["log"])


def train(settings: Settings, checkpoint: Path, out: Path) -> None:
    """Run to the last step, going on from `checkpoint` if it is there; write the model to `out`."""
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    tokenizer = train_tokenizer(settings.vocab_size)
    model = build_model(settings)
    run = Run(settings, model, build_optimizer(model, settings))
    if checkpoint.exists():
        resume(run, checkpoint)
    start, spent_s = (run.log[-1]["step"], run.log[-1]["wall_s"]) if run.log else (0, 0.0)
    began = time.monotonic() - spent_s
    losses: list[float] = []
    stream = batches(tokenizer, settings, skip=start)
    for step in range(start, settings.steps):
        for group in run.optimizer.param_groups:
            group["lr"] = settings.learning_rate * rate_at(step, settings)
        losses.append(one_step(run, next(stream)))
        done = step + 1
        if done % LOG_EVERY == 0 or done == settings.steps:
            mean, wall_s = sum(losses) / len(losses), time.monotonic() - began
            run.log.append({"step": done, "loss": round(mean, 5), "wall_s": round(wall_s, 1)})
            print(json.dumps(run.log[-1]), flush=True)
            losses.clear()
        if done % SAVE_EVERY == 0 or done == settings.steps:
            save_checkpoint(run, checkpoint)
    save_model(model, tokenizer, settings, out)


if __name__ == "__main__":
    STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else Settings.steps
    CHECKPOINT = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.gettempdir()) / "home_agent.pt"
    OUT = Path(sys.argv[3]) if len(sys.argv) > 3 else FOLDER
    train(Settings(steps=STEPS), CHECKPOINT, OUT)
