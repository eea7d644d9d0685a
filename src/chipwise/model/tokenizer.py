"""Tokenizer: text to token ids and back, the same on the host and on the device."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tokenizers import Tokenizer as FastTokenizer

from chipwise.errors import ModelFormatError

# Characters of a text's beginning for each token it may have: more than a token of most texts has.
_CHARS_LOOKED_AT = 8


@dataclass(frozen=True)
class SpecialTokens:
    """The tokens with a meaning of their own.

    Attributes:
        bos_id: Start of text; None if the model has none.
        eos_ids: Every token that ends an answer (end of text, end of turn).
        pad_id: Padding; None if the model has none.
        add_bos: Whether bare text (not a chat) starts with ``bos_id``.
    """

    bos_id: int | None
    eos_ids: tuple[int, ...]
    pad_id: int | None
    add_bos: bool


class Tokenizer:
    """A `tokenizers` tokenizer with the model's special tokens beside it."""

    _SPECIAL_FILE = "special_tokens.json"
    _TOKENIZER_FILE = "tokenizer.json"

    def __init__(self, fast: FastTokenizer, special: SpecialTokens) -> None:
        self._fast = fast
        self.special = special

    @property
    def vocab_size(self) -> int:
        """Number of token ids, added tokens included."""
        return int(self._fast.get_vocab_size(with_added_tokens=True))

    def encode(self, text: str, *, add_bos: bool | None = None) -> list[int]:
        """The token ids of a text; special tokens written in it are recognised.

        Args:
            text: The text.
            add_bos: Whether to put the start token in front; None takes the model's habit. A rendered chat
                template brings its own and is encoded with False. A start token already there is not doubled.
        """
        ids: list[int] = self._fast.encode(text, add_special_tokens=False).ids
        wanted = self.special.add_bos if add_bos is None else add_bos
        bos = self.special.bos_id
        if wanted and bos is not None and (not ids or ids[0] != bos):
            ids = [bos, *ids]
        return ids

    def exceeds(self, text: str, tokens: int) -> bool:
        """Whether a text has surely more tokens than so many, which its beginning tells.

        It takes as long as a few times so many tokens, whatever the text's length. One that has up to twice as many
        may pass.
        """
        chars = _CHARS_LOOKED_AT * tokens
        while chars < len(text):
            # Where it is cut tokens may differ from those of the whole, but not by half of them.
            if len(self._fast.encode(text[:chars], add_special_tokens=False).ids) > 2 * tokens:
                return True
            chars *= 2
        return False

    def encode_framed(self, text: str) -> list[int]:
        """The token ids of a text in the frame that the tokenizer gives it, e.g. ``[CLS] ... [SEP]`` for encoders."""
        ids: list[int] = self._fast.encode(text, add_special_tokens=True).ids
        return ids

    def decode(self, ids: list[int], *, skip_special: bool = True) -> str:
        """The text of token ids; bytes cut inside a character show as U+FFFD."""
        return str(self._fast.decode(ids, skip_special_tokens=skip_special))

    def token_id(self, token: str) -> int | None:
        """The id of a token, None if there is none such."""
        found = self._fast.token_to_id(token)
        return None if found is None else int(found)

    def token_text(self, token_id: int) -> str:
        """The token as the vocabulary writes it; empty for an id without one, as in padded vocabularies."""
        found = self._fast.id_to_token(token_id)
        return "" if found is None else str(found)

    def to_files(self) -> dict[str, bytes]:
        """The files that ``from_files`` reads back."""
        return {
            self._TOKENIZER_FILE: self._fast.to_str().encode(),
            self._SPECIAL_FILE: json.dumps(asdict(self.special), indent=1).encode(),
        }

    @classmethod
    def from_files(cls, tokenizer_json: Path, special_json: Path) -> Tokenizer:
        """The tokenizer that ``to_files`` wrote.

        Raises:
            ModelFormatError: A file is missing or malformed.
        """
        try:
            fields = json.loads(special_json.read_text("utf-8"))
            fields["eos_ids"] = tuple(fields["eos_ids"])
            special = SpecialTokens(**fields)
        except (OSError, ValueError, TypeError, KeyError) as e:
            raise ModelFormatError(
                f"unreadable special tokens ({e})",
                where=str(special_json),
                remedy="download the model or copy the bundle again",
            ) from e
        return cls(load_fast_tokenizer(tokenizer_json), special)


def load_fast_tokenizer(path: Path) -> FastTokenizer:
    """Read a tokenizer.json, without the padding and truncation that some carry: those would change token ids.

    Raises:
        ModelFormatError: The file is missing or malformed.
    """
    try:
        fast = FastTokenizer.from_str(path.read_text("utf-8"))
        fast.no_padding()
        fast.no_truncation()
    except OSError as e:
        raise ModelFormatError(
            f"cannot read the tokenizer ({e.strerror})",
            where=str(path),
            remedy="download the model or copy the bundle again",
        ) from e
    except Exception as e:  # tokenizers raises bare Exception for malformed files
        raise ModelFormatError(
            f"not a tokenizer.json ({e})",
            where=str(path),
            remedy="take the file from the model's folder again",
        ) from e
    return fast
