"""config.json of an encoder to EncoderConfig, with the pooling settings that sentence-transformers keeps beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from chipwise.errors import ModelFormatError
from chipwise.model.config import EncoderConfig
from chipwise.model.importer.fields import MOST_LAYERS, Fields, read_json
from chipwise.model.importer.file_checks import read_text
from chipwise.model.importer.hf_decoder_config import activation
from chipwise.model.importer.hf_defaults import BERT_DEFAULTS
from chipwise.model.importer.hf_refusals import refuse_unsupported

_MODULES = "modules.json"


def encoder_config(fields: Fields, folder: Path) -> EncoderConfig:
    """The architecture a bert config.json describes.

    ``extra`` holds ``pooling`` (1_Pooling/config.json), ``normalize`` (whether a Normalize module follows) and
    ``max_seq_length`` of sentence-transformers, each where the folder has it.

    Raises:
        ModelFormatError: A setting is missing or malformed.
        UnknownArchitectureError: A variant that is not supported.
    """
    fields = Fields(fields.values, fields.where, BERT_DEFAULTS)
    refuse_unsupported(fields)
    return EncoderConfig(
        arch="bert",
        vocab_size=fields.integer("vocab_size"),
        hidden_size=fields.integer("hidden_size"),
        ffn_size=fields.integer("intermediate_size"),
        n_layers=fields.integer("num_hidden_layers", most=MOST_LAYERS),
        n_heads=fields.integer("num_attention_heads"),
        max_positions=fields.integer("max_position_embeddings"),
        type_vocab_size=fields.integer("type_vocab_size"),
        norm_eps=fields.positive("layer_norm_eps"),
        activation=activation(fields, "hidden_act"),
        extra=_sentence_settings(folder),
    )


def _sentence_settings(folder: Path) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    if (folder / "sentence_bert_config.json").exists():
        settings = read_json(folder / "sentence_bert_config.json")
        if "max_seq_length" in settings:
            extra["max_seq_length"] = settings.integer("max_seq_length")
    if not (folder / _MODULES).exists():
        return extra
    for module in _modules(folder / _MODULES):
        kind = str(module.get("type", "")).rpartition(".")[2]
        if kind == "Pooling":
            extra["pooling"] = read_json(folder / str(module.get("path")) / "config.json").values
        elif kind == "Normalize":
            extra["normalize"] = True
    return extra


def _modules(path: Path) -> list[dict[str, Any]]:
    try:
        modules = json.loads(read_text(path))
    except ValueError as e:
        raise ModelFormatError(f"not JSON ({e})", where=str(path), remedy="download the file again") from e
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise ModelFormatError("not a list of modules", where=str(path), remedy="download the file again")
    return modules
