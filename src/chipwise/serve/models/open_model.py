"""Opening a bundle as a model that a server can serve."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from chipwise.bundle import Bundle, open_bundle
from chipwise.bundle.manifest import SPECIAL_TOKENS, TOKENIZER
from chipwise.bundle.quality_cost import quality_cost
from chipwise.bundle.self_test import Turn
from chipwise.engine.isolated import Isolation
from chipwise.engine.restarts import Restarts
from chipwise.engine.session import Session
from chipwise.errors import BundleError, InputError
from chipwise.files import sha256_bytes
from chipwise.serve.models.bundle_facts import created_s, fingerprint_of
from chipwise.serve.models.isolation_rule import isolation_of
from chipwise.serve.models.late_session import LateSession
from chipwise.serve.models.prefix_proof import reuses_exactly
from chipwise.serve.models.served_model import ServedModel
from chipwise.serve.turns.spare_time import SpareTime

# A slot of this many tokens suits most models and boards; longer ones are asked for.
_DEFAULT_CONTEXT = 4096
# How long requests wait for an engine's next process while another engine could answer them.
_PATIENCE_BESIDE_FALLBACK_S = 1.0

FallbackMode = Literal["lazy", "resident", "off"]
"""When the second engine of a bundle is opened: on first need, at the start with all its memory, or never."""


def _as_it_is(session: Session) -> Session:
    return session


@dataclass(frozen=True)
class ModelOpener:
    """Opens bundles of language models, each in the same way.

    Attributes:
        n_slots: KV slots to hold.
        max_context: Tokens of a prompt and its answer; None takes the model's own limit, 4096 at most.
        threads: Threads of the engine; None leaves it to the bundle or the engine.
        fallback: When the bundle's second engine is opened.
        isolate: Whether the engine runs in a process of its own; None decides by the engine.
        isolation: How that process is kept.
        wrap: What becomes of a session that is open and has passed its self-test.
    """

    n_slots: int
    max_context: int | None = None
    threads: int | None = None
    fallback: FallbackMode = "lazy"
    isolate: bool | None = None
    isolation: Isolation | None = None
    wrap: Callable[[Session], Session] = _as_it_is
    proofs: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)
    """Whether models that were open before reuse beginnings exactly: an engine's kernels go by shapes, which stay."""

    def context(self, bundle: Bundle) -> int:
        """Tokens that a slot will hold."""
        if self.max_context is not None:
            return self.max_context
        longest = bundle.manifest.model.config.get("max_positions")
        return min(longest, _DEFAULT_CONTEXT) if isinstance(longest, int) and longest > 0 else _DEFAULT_CONTEXT

    def open(
        self,
        bundle: Bundle,
        variant: str | None = None,
        *,
        like: ServedModel | None = None,
        spare: SpareTime | None = None,
    ) -> ServedModel:
        """Open a bundle's model, or a variant of it, and run its self-test.

        Args:
            bundle: The bundle.
            variant: Which form of its model; None for the one it was built as.
            like: Another model, whose tokenizer is taken if it is the same: reading one stops all threads for a while.
            spare: When its parts may begin and the steps of its tests run; None if nothing else is served.

        Raises:
            InputError: The fallback shall be resident, and there is none.
            BundleError: It has no tokenizer, or the self-test failed.
            EngineError: The model cannot be loaded.
        """
        form = bundle if variant is None else bundle.variants[variant]
        manifest, words = form.manifest, _tokenizer_id(form)
        shared = like is not None and like.tokenizer_id == words
        if spare is not None:
            spare.pause()
        tokenizer = like.tokenizer if like is not None and shared else form.tokenizer
        if tokenizer is None or words is None:
            raise BundleError(
                "the bundle has no tokenizer, so it cannot answer text",
                where=str(form.path),
                remedy="serve a language model",
            )
        created, isolation = created_s(form), self._isolation_of(form)
        turn: Turn = nullcontext
        if spare is not None:
            spare.pause()
            turn = spare.turn
        session = form.open_session(
            self.n_slots, self.context(form), threads=self.threads, isolation=isolation, turn=turn
        )
        try:
            return ServedModel(
                name=manifest.name,
                session=self.wrap(session),
                tokenizer=tokenizer,
                chat_template=form.chat_template,
                created_s=created,
                fingerprint=fingerprint_of(form),
                emulates=manifest.emulates,
                reuses_prefixes=self._reuses(form, session, turn),
                fallback=self._fallback_of(form, session, turn),
                process=session if isinstance(session, Restarts) else None,
                tokenizer_id=words,
                variant=variant,
                quality_cost=quality_cost(manifest.verdicts),
            )
        except BaseException:
            session.close()
            raise

    def _reuses(self, form: Bundle, session: Session, turn: Turn) -> bool:
        key = f"{sha256_bytes(form.manifest.to_json())} {session.n_slots} {session.max_context}"
        if key not in self.proofs:
            self.proofs[key] = reuses_exactly(session, turn)
        return self.proofs[key]

    def _isolation_of(self, bundle: Bundle) -> Isolation | None:
        """How the engine's process is kept; None if it has none of its own. Beside a fallback nobody waits for it."""
        kept = isolation_of(bundle, self.isolate, self.isolation)
        if kept is not None and bundle.manifest.fallback is not None and self.fallback != "off":
            kept = replace(kept, patience_s=_PATIENCE_BESIDE_FALLBACK_S, patience_factor=0.0)
        return kept

    def _fallback_of(self, bundle: Bundle, session: Session, turn: Turn) -> Session | None:
        if self.fallback == "resident" and bundle.manifest.fallback is None:
            raise InputError("it has no fallback", where=str(bundle.path), remedy="build it with --fallback fp16")
        if self.fallback == "off" or bundle.manifest.fallback is None:
            return None
        late = LateSession(
            lambda: bundle.open_fallback(session.n_slots, session.max_context, threads=self.threads, turn=turn),
            n_slots=session.n_slots,
            max_context=session.max_context,
            vocab_size=session.vocab_size,
        )
        if self.fallback == "resident":
            late.open(whole=True)
        return late


def _tokenizer_id(bundle: Bundle) -> str | None:
    entries = [bundle.manifest.files.get(role) for role in (TOKENIZER, SPECIAL_TOKENS)]
    return " ".join(entry.sha256 for entry in entries if entry) if all(entries) else None


def open_model(
    path: Path,
    *,
    n_slots: int,
    max_context: int | None,
    threads: int | None,
    fallback: FallbackMode = "lazy",
    isolate: bool | None = None,
    isolation: Isolation | None = None,
) -> ServedModel:
    """Open a bundle: every digest is checked and its self-test run. The arguments are those of ``ModelOpener``.

    Raises:
        InputError: The fallback shall be resident, and there is none.
        BundleError: It is not sound, or has no tokenizer.
        EngineError: Its model cannot be loaded.
    """
    return ModelOpener(n_slots, max_context, threads, fallback, isolate, isolation).open(open_bundle(path))
