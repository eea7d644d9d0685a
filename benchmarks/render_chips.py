"""The tables of the chip benchmarks: models by Rockchip's compiler, beside the plain toolkit, and emulation."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.chip_results import Agreement, Compared, ModelBuild, RockchipEmulation, RockchipModels


def rockchip_models(result: RockchipModels) -> list[str]:
    """Models x chips x schemes, and ours against the plain toolkit."""
    ours = [build for build in result.builds if build.way == "chipwise"]
    return [
        "## Models on Rockchip's chips\n",
        f"`python -m benchmarks.rockchip_models`, {result.date}. {result.toolkit}; `chipwise build MODEL --target CHIP "
        "--recipe SCHEME` with samples or queries, a third of them held out, simulated and compared with ONNX Runtime "
        "in float32. No board was used, and the machine was shared while this ran: seconds are upper bounds. Channel "
        "cosine: of each output channel over all held-out samples, the mean over channels and the worst channel, of "
        "the worst output. Build: the whole command with its verification. Memory: of the toolkit's processes.\n",
        *(f"- `{model.name}`: {model.words}." for model in result.models),
        "",
        "| model | chip | scheme | gate | channel cosine: mean, worst | on NPU / CPU | .rknn | build | memory |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_built(build) for build in ours),
        "",
        "### Ours against the plain toolkit, same data\n",
        "The plain toolkit gets the file as it was exported, with its own defaults and the same samples.\n",
        "| model | chip | scheme | plain toolkit | chipwise build | on the CPU: plain, ours | .rknn: plain, ours |",
        "|---|---|---|---|---|---|---|",
        *_pairs(result),
        "",
    ]


def rockchip_emulation(result: RockchipEmulation) -> list[str]:
    """Emulated and simulated arithmetic side by side."""
    return [
        "## Emulation held against Rockchip's simulator\n",
        f"`python -m benchmarks.rockchip_emulation`, {result.date}. {result.toolkit}. The same graph, calibration and "
        "inputs, computed by chipwise's emulation (`--emulate`) and by the simulator, each against ONNX Runtime in "
        "float32. Nothing is repaired here: `block_mask` keeps its mask of -10000. Optimistic by: how much better "
        "emulation looked (below 0: worse). Reports of emulated builds carry these figures.\n",
        "| model | chip | scheme | emulated: mean, worst channel | simulated: mean, worst channel | optimistic by |",
        "|---|---|---|---|---|---|",
        *(_compared(one) for one in result.compared),
        "",
    ]


def _built(build: ModelBuild) -> str:
    head = f"| {build.model} | {build.chip} | {build.scheme} |"
    if build.refused:
        return f"{head} **not built** | {_cell(build.refused)} | | | | |"
    gate = build.gate if build.gate == "passed" else f"**{build.gate}**"
    gate += f", repaired: {build.repaired}" if build.repaired else ""
    cells = [gate, _agreement(build.agreement), _placed(build), _megabytes(build.size_bytes, 1),
             "" if build.build_s is None else f"{build.build_s:.0f} s", _megabytes(build.peak_bytes)]  # fmt: skip
    return f"{head} {' | '.join(cells)} |"


def _pairs(result: RockchipModels) -> Iterator[str]:
    ours = {(b.model, b.chip, b.scheme): b for b in result.builds if b.way == "chipwise"}
    for plain in result.builds:
        own = ours.get((plain.model, plain.chip, plain.scheme))
        if plain.way != "toolkit" or own is None:
            continue
        on_cpu = ", ".join(_or_none(build.cpu_operators) for build in (plain, own))
        sizes = ", ".join(_megabytes(build.size_bytes, 1) or "none" for build in (plain, own))
        cells = [plain.model, plain.chip, plain.scheme, _outcome(plain), _outcome(own), on_cpu, sizes]
        yield f"| {' | '.join(cells)} |"


def _compared(one: Compared) -> str:
    head = f"| {one.model} | {one.chip} | {one.scheme} |"
    if one.emulated is None or one.simulated is None:
        return f"{head} **not compared**: {one.refused} | | |"
    means = [one.emulated.mean, one.simulated.mean]
    # What rounds to nothing has no sign.
    gap = "" if None in means else f"{round((means[0] or 0) - (means[1] or 0), 4) + 0.0:+.4f}"
    kls = [one.emulated.kl_mean_nats, one.simulated.kl_mean_nats]
    if None not in kls:
        gap += f", {(kls[1] or 0) - (kls[0] or 0):+.1g} nats"
    return f"{head} {_agreement(one.emulated)} | {_agreement(one.simulated)} | {gap} |"


def _cell(text: str) -> str:
    return text.replace("|", "/")


def _outcome(build: ModelBuild) -> str:
    if build.refused:
        return f"not built: {_cell(build.refused)}"
    return _agreement(build.agreement) + (" (gate failed)" if build.gate == "failed" else "")


def _agreement(found: Agreement | None) -> str:
    if found is None:
        return "not measured"
    words = []
    if found.mean is not None and found.min is not None:
        words.append(f"{found.mean:.4f}, {found.min:.4f}")
    if found.kl_mean_nats is not None and found.top1_agreement is not None:
        words.append(f"KL {found.kl_mean_nats:.2g} nats, same token {found.top1_agreement:.1%}")
    return "; ".join(words) or "not measured"


def _placed(build: ModelBuild) -> str:
    return f"{_or_none(build.npu_operators)} / {_or_none(build.cpu_operators)}"


def _or_none(count: int | None) -> str:
    return "none" if count is None else str(count)


def _megabytes(size: int | None, digits: int = 0) -> str:
    return "" if size is None else f"{size / 1e6:.{digits}f} MB"
