"""A suite run on a bundle, beside a second one if there is one, with a bar of the cases done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from chipwise.bundle import Bundle
from chipwise.bundle.manifest import CHAT_TEMPLATE, TOKENIZER
from chipwise.cli.progress import cases_bar
from chipwise.engine import Session
from chipwise.errors import BundleError
from chipwise.model.tokenizer import Tokenizer
from chipwise.target.host.machine import look
from chipwise.verify.environment import hardware_line
from chipwise.verify.generate import Prompt
from chipwise.verify.reference.store import ReferenceStore
from chipwise.verify.reference.verify_beside import Beside, Reference, verify_beside
from chipwise.verify.run import context_needed, differing, encode_suite
from chipwise.verify.run import verify as verify_cases
from chipwise.verify.speed import measure_speed
from chipwise.verify.suite import Suite


def run_bundles(
    suite: Suite,
    ours: Bundle,
    theirs: Bundle | None,
    *,
    slots: int,
    threads: int | None,
    store: ReferenceStore | None,
) -> Beside:
    """Run a suite.

    Args:
        suite: The cases.
        ours: The bundle that is judged.
        theirs: The one it is compared with; None scores the answers alone.
        slots: Cases that run at once at most.
        threads: Threads of the engines; None leaves it to them.
        store: Where the answers of ``theirs`` are kept; None keeps none.

    Raises:
        BundleError: A bundle has no tokenizer, or the two have different ones.
        EngineError: A runtime failed.
        QueryFileError: No case fits the context.
    """
    tokenizer = ours.tokenizer
    if tokenizer is None:
        raise BundleError("no tokenizer in the bundle", where=str(ours.path), remedy="build it from a language model")
    if theirs and theirs.manifest.files.get(TOKENIZER) != ours.manifest.files.get(TOKENIZER):
        raise BundleError(
            "another tokenizer than the bundle's: the same tokens would mean other texts",
            where=str(theirs.path),
            remedy="compare with a bundle of the same model",
        )
    prompts = encode_suite(suite, tokenizer, ours.chat_template)
    slots = min(slots, len(prompts))
    # Emulated arithmetic is not as fast as the chip.
    machine = None if ours.manifest.emulates else hardware_line(look())
    with ExitStack() as stack:
        candidate = stack.enter_context(_session(ours, prompts, slots, threads))
        progress = stack.enter_context(cases_bar(len(prompts)))
        asked = _asked(suite, tokenizer, ours, theirs) if theirs else None
        if theirs and asked and differing(prompts, asked):
            with _session(theirs, asked, slots, threads) as session:
                apart = verify_cases(
                    suite.cases, prompts, tokenizer, candidate=candidate, reference=session, reference_prompts=asked,
                    progress=progress,
                )  # fmt: skip
            return Beside(apart, "to prompts of its own chat template")
        if theirs is None:
            alone = verify_cases(suite.cases, prompts, tokenizer, candidate=candidate, progress=progress)
            return Beside(alone, "none", speed=measure_speed(candidate, machine) if machine else None)
        reference = _reference(ours, theirs, prompts, slots, threads)
        return verify_beside(
            suite.cases, prompts, tokenizer, candidate=candidate, reference=reference, store=store, hardware=machine,
            progress=progress,
        )  # fmt: skip


def _asked(suite: Suite, tokenizer: Tokenizer, ours: Bundle, theirs: Bundle) -> list[Prompt] | None:
    """The cases as the reference's own chat template puts them; None if it is the same file."""
    mine, other = (bundle.manifest.files.get(CHAT_TEMPLATE) for bundle in (ours, theirs))
    return None if mine == other else encode_suite(suite, tokenizer, theirs.chat_template)


def _reference(ours: Bundle, theirs: Bundle, prompts: Sequence[Prompt], slots: int, threads: int | None) -> Reference:
    manifest = theirs.manifest
    template = ours.manifest.files.get(CHAT_TEMPLATE)
    content = {
        "files": {role: entry.sha256 for role, entry in manifest.files.items()},
        "rendered by": template.sha256 if template else None,
        "engine": [manifest.engine.name, manifest.engine.options],
        "opened": [slots, _context(theirs, prompts), threads],
    }
    return Reference(lambda: _session(theirs, prompts, slots, threads), manifest.engine.name, content)


@contextmanager
def _session(bundle: Bundle, prompts: Sequence[Prompt], slots: int, threads: int | None) -> Iterator[Session]:
    session = bundle.open_session(slots, _context(bundle, prompts), threads=threads)
    try:
        yield session
    finally:
        session.close()


def _context(bundle: Bundle, prompts: Sequence[Prompt]) -> int:
    manifest = bundle.manifest
    self_test = manifest.self_test.context if manifest.self_test else 1
    limit = int(manifest.model.config.get("max_positions", 1 << 31))
    return min(max(context_needed(prompts), self_test), limit)


def weights_bytes(bundle: Bundle) -> int:
    """Bytes of what a bundle's engine reads."""
    return sum(entry.bytes for entry in bundle.manifest.engine_files.values())
