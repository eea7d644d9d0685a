"""ServedModel: what a server needs of a model, wherever it came from."""

from __future__ import annotations

from dataclasses import dataclass

from chipwise.bundle.quality_cost import QualityCost
from chipwise.engine.restarts import Restarts
from chipwise.engine.session import Session
from chipwise.model.chat_template import ChatTemplate
from chipwise.model.tokenizer import Tokenizer


@dataclass(frozen=True)
class ServedModel:
    """An open model.

    Attributes:
        name: What clients call it.
        session: Its decoder. The server closes it.
        tokenizer: Its tokenizer.
        chat_template: Its chat template; None if it only completes text.
        created_s: When it was built, in seconds since 1970.
        fingerprint: Changes whenever its answers might; None if unknown.
        emulates: Name of the chip whose arithmetic it emulates; None if it is what is deployed.
        reuses_prefixes: Whether KV copied from another prompt with the same beginning is as good as computed.
        fallback: Another decoder of the same vocabulary, which takes over what the first one fails; None if there is
            none. The server closes it.
        tokenizer_id: What its tokenizer was read from: two models with the same one, not None, share it.
        variant: Which form of its bundle's model it is; None for the one the bundle was built as.
        quality_cost: What it loses against the unquantized model; None if that was not measured.
        process: The session, if its engine runs in a process that may be lost and is replaced; None if it does not.
    """

    name: str
    session: Session
    tokenizer: Tokenizer
    chat_template: ChatTemplate | None
    created_s: int
    fingerprint: str | None = None
    emulates: str | None = None
    reuses_prefixes: bool = True
    fallback: Session | None = None
    process: Restarts | None = None
    tokenizer_id: str | None = None
    variant: str | None = None
    quality_cost: QualityCost | None = None

    def close(self) -> None:
        """Give all its memory back."""
        self.session.close()
        if self.fallback is not None:
            self.fallback.close()
