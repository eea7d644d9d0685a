"""A Hugging Face folder as a Model."""

from __future__ import annotations

from pathlib import Path

from chipwise.errors import UnknownArchitectureError
from chipwise.model.importer.fields import Fields, read_json
from chipwise.model.importer.hf_decoder_config import decoder_config
from chipwise.model.importer.hf_defaults import DECODER_DEFAULTS
from chipwise.model.importer.hf_encoder_config import encoder_config
from chipwise.model.importer.hf_places import decoder_weights, encoder_weights
from chipwise.model.importer.hf_tokenizer import hf_chat_template, hf_tokenizer
from chipwise.model.importer.licence import stated_licence
from chipwise.model.importer.safetensors_files import SafetensorsFiles
from chipwise.model.model import Model, ModelSource

_MULTIMODAL = {"gemma3": "gemma3_text"}


def load_huggingface(folder: Path, max_context: int | None = None, name: str | None = None) -> Model:
    """Read a folder with config.json and .safetensors; weights stay in their files until they are asked for.

    Args:
        folder: The folder.
        max_context: As for ``load_model``.
        name: The model's name, if it is not the folder's.

    Raises:
        ModelFormatError: A file is missing, truncated or malformed, or holds what is not supported.
    """
    fields = read_json(folder / "config.json")
    model_type = fields.text("model_type")
    source = ModelSource("huggingface", folder, name or folder.resolve().name, stated_licence(folder))
    if model_type == "bert":
        encoder = encoder_config(fields, folder)
        weights = encoder_weights(SafetensorsFiles(folder), encoder)
        return Model(source, encoder, weights, hf_tokenizer(folder))
    decoder = decoder_config(*_text_part(fields, model_type), max_context)
    weights = decoder_weights(SafetensorsFiles(folder), decoder)
    return Model(source, decoder, weights, hf_tokenizer(folder), hf_chat_template(folder))


def _text_part(fields: Fields, model_type: str) -> tuple[Fields, str]:
    if model_type in _MULTIMODAL:
        return fields.section("text_config"), _MULTIMODAL[model_type]
    if model_type not in DECODER_DEFAULTS:
        known = sorted([*DECODER_DEFAULTS, *_MULTIMODAL, "bert"])
        raise UnknownArchitectureError(
            f"model_type {model_type!r} is not supported; supported are {', '.join(known)}", where=fields.where
        )
    return fields, model_type
