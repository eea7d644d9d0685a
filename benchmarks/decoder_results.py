"""What language models on Rockchip's chips came to, as results/rockchip_decoders.json keeps it, and as it is shown."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.results import BuildStep


@dataclass(frozen=True)
class KeptProducts:
    """Products that stay in float16: their weights, and what that costs, in words (bytes, cycles, nats)."""

    weights: str
    cost: str


@dataclass(frozen=True)
class DecoderBuild:
    """One language model compiled and simulated.

    Attributes:
        model: Its name.
        chip: The target.
        recipe: Bits of weights and activations.
        repaired: Whether chipwise might change weights and keep tensors in float16.
        outcome: What the gate said: ``pass``, ``fail``, or ``unclear`` for want of cases.
        cases: Prompts answered in the simulator.
        exact: Share of the suite's cases answered right; None without a suite.
        exact_reference: The same of the model in float32.
        kl_mean_nats: Against ONNX Runtime in float32, over answer tokens, prefill and decode graph together.
        top1_agreement: Likewise.
        size_bytes: Of both .rknn files.
        placement: Where the operators run.
        kept_words: What stays in float16, in words.
        kept: Each group of it.
        steps: The steps of the build.
    """

    model: str
    chip: str
    recipe: str
    repaired: bool
    outcome: str
    cases: int
    exact: float | None
    exact_reference: float | None
    kl_mean_nats: float
    top1_agreement: float
    size_bytes: int
    placement: str
    kept_words: str
    kept: tuple[KeptProducts, ...]
    steps: tuple[BuildStep, ...]


@dataclass(frozen=True)
class RockchipDecoders:
    """results/rockchip_decoders.json."""

    date: str
    toolkit: str
    builds: tuple[DecoderBuild, ...]


def rockchip_decoders(result: RockchipDecoders) -> list[str]:
    """Language models in Rockchip's simulator."""
    return [
        "## Language models on Rockchip's chips\n",
        f"`python -m benchmarks.rockchip_decoders`, {result.date}. {result.toolkit}; `chipwise build`, prefill and "
        "decode graphs compiled and simulated, prompts answered through both as an engine on the board would, compared "
        "with ONNX Runtime in float32 on the same tokens. No board was used; the machine was shared, seconds are upper "
        "bounds.\n",
        "| model | chip | recipe | repair | gate | prompts | answers right (float32) | KL, nats | top-1 agreement "
        "| .rknn files | kept in float16 |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *(_row(build) for build in result.builds),
        "",
        *(line for build in result.builds for line in _details(build)),
    ]


def _row(build: DecoderBuild) -> str:
    exact = "" if build.exact is None else f"{build.exact:.1%} ({build.exact_reference or 0:.1%})"
    gate = {"pass": "passed", "unclear": "not enough cases"}.get(build.outcome, "**failed**")
    return (
        f"| {build.model} | {build.chip} | {build.recipe} | {'yes' if build.repaired else 'no'} | {gate} "
        f"| {build.cases} | {exact} | {build.kl_mean_nats:.3g} | {build.top1_agreement:.1%} "
        f"| {build.size_bytes / 1e6:.0f} MB | {build.kept_words} |"
    )


def _details(build: DecoderBuild) -> list[str]:
    kind = "repaired" if build.repaired else "plain"
    lines = [f"### {build.model}, {build.chip}, {build.recipe}, {kind}\n", f"{build.placement}.\n"]
    lines += [f"- {step.name}: {step.duration_s:.1f} s. {step.note}" for step in build.steps]
    if build.kept:
        lines += ["", "Kept in float16:\n", "| weights | cost |", "|---|---|"]
        lines += [f"| {one.weights} | {one.cost} |" for one in build.kept]
    return [*lines, ""]
