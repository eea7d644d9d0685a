"""The weights chipwise builds from in each peer's own format, made by the peers' own converters."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from benchmarks.peers import Peer
from chipwise.model.config import DecoderConfig
from chipwise.model.importer import load_model

# Blocks of 32 and int8 arithmetic: what onnxruntime-genai is fastest with on CPUs, and the same as chipwise's w4a16.
_GENAI_OPTIONS = ("int4_block_size=32", "int4_accuracy_level=4")
# 2 is LLAMA_FTYPE_MOSTLY_Q4_0. The GGUF is quantized already, so it must be allowed to quantize it again.
_QUANTIZE = (
    "import sys, llama_cpp as ll\n"
    "params = ll.llama_model_quantize_default_params()\n"
    "params.ftype, params.allow_requantize, params.nthread = 2, True, 2\n"
    "sys.exit(ll.llama_model_quantize(sys.argv[1].encode(), sys.argv[2].encode(), params))\n"
)


def genai_int4(peer: Peer, gguf: Path, cache: Path) -> Path:
    """The folder of onnxruntime-genai's int4 model, made by its model builder.

    Raises:
        subprocess.CalledProcessError: The builder failed.
    """

    def make(out: Path) -> None:
        source = out.with_name(out.name + ".hf")
        try:
            write_huggingface(gguf, source)
            command: list[str | Path] = [peer.python, "-m", "onnxruntime_genai.models.builder", "-m", gguf.stem]
            command += ["-i", source, "-o", out, "-p", "int4", "-e", "cpu", "-c", out.with_name(out.name + ".cache")]
            _run([*command, "--extra_options", *_GENAI_OPTIONS])
        finally:
            shutil.rmtree(source, ignore_errors=True)
            shutil.rmtree(out.with_name(out.name + ".cache"), ignore_errors=True)

    return _made_once(cache / "genai_int4", make)


def gguf_q4_0(peer: Peer, gguf: Path, cache: Path) -> Path:
    """The GGUF in Q4_0, made by llama.cpp; it keeps a tied embedding at 8 bits.

    Raises:
        subprocess.CalledProcessError: The conversion failed.
    """
    return _made_once(cache / "q4_0.gguf", lambda out: _run([peer.python, "-c", _QUANTIZE, gguf, out]))


def write_huggingface(gguf: Path, folder: Path) -> None:
    """The model as a Hugging Face folder in float32. For models of the llama family."""
    model = load_model(gguf)
    config, weights, tokenizer = model.config, model.weights, model.tokenizer
    if not isinstance(config, DecoderConfig) or config.arch != "llama" or weights is None or tokenizer is None:
        raise SystemExit(f"error: {gguf} is no llama with a tokenizer; this benchmark converts nothing else")
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {name: np.ascontiguousarray(weights.load(name)) for name in weights.names()}
    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
    special = tokenizer.special
    given = {"bos": special.bos_id, "eos": special.eos_ids[0], "pad": special.pad_id}
    tokens = {kind: token for kind, token in given.items() if token is not None}
    settings = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "float32",
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.ffn_size,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.n_kv_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.max_positions,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope.theta,
        "tie_word_embeddings": config.tied_embeddings,
        "hidden_act": config.activation,
        **{f"{kind}_token_id": token for kind, token in tokens.items()},
    }
    (folder / "config.json").write_text(json.dumps(settings, indent=1), "utf-8")
    (folder / "tokenizer.json").write_bytes(tokenizer.to_files()["tokenizer.json"])
    words = {f"{kind}_token": tokenizer.token_text(token) for kind, token in tokens.items()}
    fast = {"tokenizer_class": "PreTrainedTokenizerFast", **words}
    (folder / "tokenizer_config.json").write_text(json.dumps(fast, indent=1), "utf-8")


def _made_once(place: Path, make: Callable[[Path], None]) -> Path:
    """``place``, made under another name first, so that it is whole if it is there."""
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    half = place.with_name(f".{place.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    half.unlink(missing_ok=True)
    make(half)
    half.replace(place)
    return place


def _run(command: list[str | Path]) -> None:
    """Run a converter; what it says is shown only if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        done.check_returncode()
