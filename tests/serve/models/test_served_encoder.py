"""What kind of model a bundle holds is asked of every one that is named: the answer reads no tokenizer."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chipwise.bundle.manifest import GRAPH, SPECIAL_TOKENS, TOKENIZER
from chipwise.serve.models.served_encoder import holds_encoder

ROLES = (GRAPH, TOKENIZER, SPECIAL_TOKENS)


class Unread:
    """A bundle of these roles whose files are not there: whoever reads one fails."""

    def __init__(self, roles: tuple[str, ...], output: str = "sentence_embedding") -> None:
        self.files = {role: Path("/absent") for role in roles}
        config = {"inputs": {"input_ids": [1, 128], "attention_mask": [1, 128]}, "outputs": {output: [1, 384]}}
        self.manifest = SimpleNamespace(model=SimpleNamespace(config=config))

    @cached_property
    def tokenizer(self) -> Any:
        raise AssertionError("it was read")


def test_an_encoder_is_known_by_what_its_bundle_names() -> None:
    assert holds_encoder(Unread(ROLES))


@pytest.mark.parametrize("missing", ROLES)
def test_without_a_file_it_is_none(missing: str) -> None:
    assert not holds_encoder(Unread(tuple(role for role in ROLES if role != missing)))


def test_nor_with_other_outputs() -> None:
    assert not holds_encoder(Unread(ROLES, output="boxes"))
