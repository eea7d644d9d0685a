"""SmolLM2-135M-Instruct from its GGUF: the same greedy tokens as transformers, in each form of the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipwise.engine import Batch, Session
from chipwise.engine.onnxruntime import OnnxRuntimeEngine
from chipwise.model.decoder import GraphSpec, build_decoder
from chipwise.model.importer import load_model
from chipwise.model.model import Model
from chipwise.model.onnx_file_writer import save_graph, save_graphs
from chipwise.rewrite.passes.ort_decoder import fuse_decoder
from tests.model.decoder.sessions import distance

pytestmark = pytest.mark.slow

CONTEXT, NEW_TOKENS = 256, 32
PROMPTS = [
    "Turn off the light in the kitchen and set the bedroom to 21 degrees.",
    "What is the capital of France?",
    "Write a haiku about rain on a tin roof.",
    "Summarize: the pump in hall three vibrates at 12 Hz and its bearing runs hot since Tuesday.",
    "List three uses of a Raspberry Pi.",
    "打开客厅的灯。",
    "中国的首都是哪里?",
    "请用一句话介绍你自己。",
    "摄像头在凌晨两点看到一个人走进仓库, 请总结。",
    "把空调调到二十六度, 然后关上窗帘。",
]


@pytest.fixture(scope="module")
def model(smollm2_gguf: Path) -> Model:
    return load_model(smollm2_gguf)


@pytest.fixture(scope="module")
def prompts(model: Model) -> list[list[int]]:
    texts = [model.chat_template.render([{"role": "user", "content": prompt}]) for prompt in PROMPTS]
    return [model.tokenizer.encode(text, add_bos=False) for text in texts]


@pytest.fixture(scope="module")
def transformers_model(model: Model) -> Any:
    """transformers' own llama with our weights: what is compared is the graph, not the reading of the file."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = model.config
    reference = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.ffn_size,
            num_hidden_layers=config.n_layers,
            num_attention_heads=config.n_heads,
            num_key_value_heads=config.n_kv_heads,
            head_dim=config.head_dim,
            rope_theta=config.rope.theta,
            rms_norm_eps=config.norm_eps,
            max_position_embeddings=config.max_positions,
            tie_word_embeddings=config.tied_embeddings,
        )
    )
    assert config.rope.inv_freq is None
    state = {name: torch.from_numpy(model.weights.load(name)) for name in model.weights.names()}
    missing, unexpected = reference.load_state_dict(state, strict=False)
    assert (missing, unexpected) == (["lm_head.weight"], [])
    reference.tie_weights()
    return reference.eval()


def _compare(session: Session, prompts: list[list[int]], reference: Any, model: Model) -> None:
    """Let a session answer greedily, and have transformers say what it would have chosen at each of the tokens.

    Each choice is compared after equal choices before it, so all of them are equal only if both would have written
    the same text alone.
    """
    import torch

    for prompt in prompts:
        rows, past, fed = [], 0, np.array([prompt])
        for _ in range(NEW_TOKENS):
            rows.append(session.step(Batch(0, fed, np.array([past]))).logits[0].copy())
            past += fed.shape[1]
            fed = rows[-1].argmax().reshape(1, 1)
        found = np.stack(rows)
        ours = found.argmax(1)
        with torch.inference_mode():
            logits = reference(torch.tensor([[*prompt, *ours[:-1]]])).logits[0]
        wanted = logits[len(prompt) - 1 :].numpy()
        theirs = wanted.argmax(1)
        if (ours != theirs).any():
            at = int((ours != theirs).argmax())
            first, second = np.sort(wanted[at])[[-1, -2]]
            pytest.fail(
                f"token {at} of {model.tokenizer.decode(prompt)!r}: ours {ours[at]}, theirs {theirs[at]}; "
                f"their two best logits are {first - second:.2g} apart"
            )
        assert distance(found, wanted) < 1e-4


def test_fused_graph_gives_the_same_32_tokens(
    model: Model, prompts: list[list[int]], transformers_model: Any, tmp_path: Path
) -> None:
    graph = fuse_decoder(build_decoder(model.config, model.weights, GraphSpec("decode", CONTEXT)), model.config)
    files = {"decoder": save_graph(graph, tmp_path, "decoder").path}
    session = OnnxRuntimeEngine().open(files, n_slots=1, max_context=CONTEXT, options={"threads": 2})
    _compare(session, prompts, transformers_model, model)
    session.close()


def test_static_graphs_give_the_same_32_tokens(
    model: Model, prompts: list[list[int]], transformers_model: Any, tmp_path: Path
) -> None:
    specs = {"prefill": GraphSpec("prefill", CONTEXT, 1, 128, 1), "decode": GraphSpec("decode", CONTEXT, 1, 1, 1)}
    graphs = {phase: build_decoder(model.config, model.weights, spec) for phase, spec in specs.items()}
    files = {phase: saved.path for phase, saved in save_graphs(graphs, tmp_path, "weights.bin").items()}
    assert (tmp_path / "weights.bin").stat().st_size < 1.01 * 4 * 134.5e6
    session = OnnxRuntimeEngine().open(files, n_slots=1, max_context=CONTEXT, options={"threads": 2})
    _compare(session, prompts, transformers_model, model)
    session.close()


def test_weights_are_those_of_the_gguf_package_and_of_transformers(model: Model, smollm2_gguf: Path) -> None:
    """Dequantized by gguf, heads put back in order by transformers' own loader: bit for bit what we read."""
    import gguf
    from transformers.modeling_gguf_pytorch_utils import LlamaTensorProcessor

    heads = {"num_attention_heads": model.config.n_heads, "num_key_value_heads": model.config.n_kv_heads}
    processor = LlamaTensorProcessor(heads)
    tensors = gguf.GGUFReader(smollm2_gguf).tensors
    names = gguf.TensorNameMap(gguf.MODEL_ARCH.LLAMA, model.config.n_layers)
    seen = 0
    for name in model.weights.names():
        stored = f"{names.get_name(name, try_suffixes=('.weight',))}"
        tensor = next(tensor for tensor in tensors if tensor.name == stored)
        dense = gguf.dequantize(tensor.data, tensor.tensor_type).reshape(tensor.shape[::-1])
        wanted = processor.process(dense, tensor.name).weights
        found = model.weights.load(name)
        assert found.dtype == np.float32
        assert np.array_equal(found, wanted), name
        seen += 1
    assert seen == len(tensors) == 272
