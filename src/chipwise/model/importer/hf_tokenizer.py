"""Tokenizer and chat template of a Hugging Face folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as FastTokenizer

from chipwise.errors import ModelFormatError
from chipwise.model.chat_template import ChatTemplate
from chipwise.model.importer.end_tokens import END_TOKENS
from chipwise.model.importer.fields import Fields, read_json
from chipwise.model.importer.file_checks import read_text
from chipwise.model.tokenizer import SpecialTokens, Tokenizer, load_fast_tokenizer

_TOKENIZER = "tokenizer.json"


def hf_tokenizer(folder: Path) -> Tokenizer | None:
    """The tokenizer of a folder; None if it has no tokenizer.json.

    The start token goes in front of bare text exactly if tokenizer.json's own post-processor puts it there.

    Raises:
        ModelFormatError: A file is malformed.
    """
    if not (folder / _TOKENIZER).exists():
        return None
    read_text(folder / _TOKENIZER)
    fast = load_fast_tokenizer(folder / _TOKENIZER)
    names = _token_names(folder)
    bos = _id(fast, names["bos_token"] or names["cls_token"])
    first = _first_added(fast)
    ends = [_id(fast, token) for token in (names["eos_token"] or names["sep_token"], *END_TOKENS)]
    special = SpecialTokens(
        bos_id=bos if first is None else first,
        eos_ids=tuple(dict.fromkeys([*_end_ids(folder), *(end for end in ends if end is not None)])),
        pad_id=_id(fast, names["pad_token"]),
        add_bos=first is not None,
    )
    return Tokenizer(fast, special)


def hf_chat_template(folder: Path) -> ChatTemplate | None:
    """The chat template of a folder: chat_template.jinja, or a field of tokenizer_config.json or chat_template.json.

    Raises:
        ModelFormatError: A file is malformed, or the template does not parse.
    """
    found = _template_source(folder)
    if found is None:
        return None
    source, file = found
    names = _token_names(folder)
    return ChatTemplate(source, bos_token=names["bos_token"] or "", eos_token=names["eos_token"] or "", where=str(file))


def _template_source(folder: Path) -> tuple[str, Path] | None:
    """The template's text and the file it is in."""
    jinja = folder / "chat_template.jinja"
    if jinja.exists():
        return read_text(jinja), jinja
    for name in ("tokenizer_config.json", "chat_template.json"):
        template = _optional_json(folder / name).get("chat_template")
        if isinstance(template, list):
            named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
            template = named.get("default", next(iter(named.values()), named))
        if isinstance(template, str):
            return template, folder / name
        if template is not None:
            raise ModelFormatError(
                "chat_template is no text", where=str(folder / name), remedy="correct it, or download the model again"
            )
    return None


def _token_names(folder: Path) -> dict[str, str | None]:
    """The texts of the special tokens; tokenizer_config.json wins over special_tokens_map.json."""
    sources = [_optional_json(folder / name) for name in ("tokenizer_config.json", "special_tokens_map.json")]
    names: dict[str, str | None] = {}
    for kind in ("bos_token", "eos_token", "pad_token", "cls_token", "sep_token"):
        found = [_token_text(source.get(kind)) for source in sources]
        names[kind] = next((text for text in found if text), None)
    return names


def _token_text(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _end_ids(folder: Path) -> list[int]:
    ends: list[int] = []
    for name in ("generation_config.json", "config.json"):
        value = _optional_json(folder / name).get("eos_token_id")
        listed = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(end, int) and not isinstance(end, bool) and end >= 0 for end in listed):
            raise ModelFormatError(
                f"eos_token_id is {str(value)[:60]}, expected a token id or a list of them",
                where=str(folder / name),
                remedy="put the id of the token that ends an answer there",
            )
        ends += listed
    return ends


def _first_added(fast: FastTokenizer) -> int | None:
    """The token that the post-processor puts in front of text, None if it puts none."""
    plain = fast.encode("a", add_special_tokens=False).ids
    dressed = fast.encode("a", add_special_tokens=True).ids
    return int(dressed[0]) if len(dressed) > len(plain) and dressed[: len(plain)] != plain else None


def _id(fast: FastTokenizer, token: str | None) -> int | None:
    found = None if token is None else fast.token_to_id(token)
    return None if found is None else int(found)


def _optional_json(path: Path) -> Fields:
    return read_json(path) if path.exists() else Fields({}, str(path))
