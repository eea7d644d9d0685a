"""Results as the benchmarks would find them, with made-up numbers."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.board_results import RehearsalResult, RehearsalRun, Served, TelemetryCost, TelemetryRow
from benchmarks.chip_results import (
    Agreement,
    Compared,
    ModelBuild,
    ModelWords,
    RockchipEmulation,
    RockchipModels,
)
from benchmarks.repair_results import RepairCase, RepairRow, RockchipRepair
from benchmarks.results import (
    BuildStep,
    BuildTime,
    DecodePrefill,
    Drift,
    EngineDrift,
    MachineFacts,
    Missing,
    Outcome,
    Rockchip,
    RockchipBuild,
    Round,
    WriteMemory,
    Written,
)
from benchmarks.serving_results import (
    Rate as ServingRate,
)
from benchmarks.serving_results import ServedOutcome, Serving, SharedPrompt, Streams, Urgent, verdicts
from benchmarks.summary import rate, ratios
from benchmarks.verify_results import VerifyRun, VerifyTime
from benchmarks.workload import Workload

MACHINE = MachineFacts(
    cpu="A processor", cores=2, memory_bytes=8 << 30, cache_bytes={"l2": 1 << 20}, features=("avx2",),
    system="Linux x86_64", read_bps=25e9, read_note="measured",
)  # fmt: skip


def outcome(
    name: str,
    prefill_s: Sequence[float] = (0.25, 0.5),
    decode_s: Sequence[float] = (0.5, 1.0),
    peak_bytes: int = 200_000_000,
) -> Outcome:
    return Outcome(
        name=name,
        title=name,
        versions={"python": "3.11.0"},
        open_s=0.5,
        weights_read_bytes=80_000_000,
        kv_read_bytes=5_000_000,
        peak_bytes=peak_bytes,
        rounds=tuple(Round(p, d, 0.25) for p, d in zip(prefill_s, decode_s, strict=True)),
        prefill=rate(128, prefill_s),
        decode=rate(64, decode_s),
        bandwidth_share=0.4,
        first_tokens=(1, 2, 3),
    )


def decode_prefill(*, gate_passed: bool = True) -> DecodePrefill:
    outcomes = (outcome("chipwise", decode_s=(0.8, 1.6)), outcome("genai"))
    missing = (Missing("llama.cpp Q4_0", "not installed"),)
    return DecodePrefill(
        "2026-01-02", "Tiny", gate_passed, MACHINE, Workload(), outcomes, missing, ratios(outcomes)
    )  # fmt: skip


def engine_drift() -> Drift:
    return Drift("2026-01-02", "Tiny", 24, 480, (EngineDrift("chipwise", 0.026, 0.925, 1.025),))


def rockchip() -> Rockchip:
    build = RockchipBuild("rk3588", "w8a8", -24.0, 0.01, 0.99, 480, 5_340_000, 200, 2, 12.0, 900_000_000)
    return Rockchip("2026-01-02", "a toolkit", "tiny", 96, 32, (build,))


def verify_time() -> VerifyTime:
    alone, computed, kept = (
        VerifyRun(4.0, 3.5, 5.0, 6.0),
        VerifyRun(9.0, 8.0, 10.0, 12.0),
        VerifyRun(5.0, 4.5, 6.0, 7.0),
    )
    return VerifyTime(
        "2026-01-02", "tiny", MACHINE, "w4a16", 100, 0.5, 3, alone, computed, kept, 19_000_000, 30.0, True
    )


def serving() -> Serving:
    outcomes = tuple(
        ServedOutcome(
            name,
            title,
            (0.5, 0.7),
            (Urgent((0.1, 0.1), (0.11, 0.13), 100.0, 80.0, 0.2),),
            (
                Streams(1, ServingRate(speed, speed, speed, (speed,))),
                Streams(8, ServingRate(3 * speed, 1.0, 9.0, (3 * speed,))),
            ),
            SharedPrompt((1.0,), (0.1,), (600,)),
        )
        for name, title, speed in (("chipwise", "chipwise", 90.0), ("llama_server", "llama.cpp", 100.0))
    )
    return Serving(
        "2026-01-02",
        "tiny",
        MACHINE,
        "1 (abc)",
        2,
        1024,
        20.0,
        outcomes,
        (Missing("third", "absent"),),
        verdicts(outcomes),
    )


def build_time() -> BuildTime:
    steps = (BuildStep("read", 1.5, 100_000_000, "a model"), BuildStep("verify w4a16", 60.0, None, "passed"))
    return BuildTime("2026-01-02", "Tiny", MACHINE, "w4a16", 100, 0.5, True, steps, 61.5, 63.0, 90.0, True)


def write_memory() -> WriteMemory:
    return WriteMemory("2026-01-02", "Tiny", {}, (Written("fused", 500_000_000, 150_000_000, 1, 0.3),), 1.3, True)


def rockchip_models() -> RockchipModels:
    good, bad = Agreement(0.999, 0.998, 0.9712), Agreement(0.96, 0.95, 0.12)
    tokens = Agreement(None, None, None, 0.02, 0.97)
    builds = (
        ModelBuild("net", "rk3588", "w8a8", "chipwise", "", "passed", good, 2500000, 40, 3, 12.4, 600_000_000, "clip"),
        ModelBuild("net", "rk3588", "w8a8", "toolkit", "", "", bad, 2_600_000, 38, 5, 9.0, 500_000_000),
        ModelBuild("vad", "rk3588", "fp16", "chipwise", refused="If is control flow"),
        ModelBuild("vad", "rk3588", "fp16", "toolkit", refused="load_onnx: a | dynamic graph"),
        ModelBuild("lm", "rk3576", "w4a16", "chipwise", "", "failed", tokens, 10, 1, 0, 2.0),
    )  # fmt: skip
    return RockchipModels("2026-11-30", "toolkit 1.0", (ModelWords("net", "a net; images"),), builds)


def rockchip_emulation() -> RockchipEmulation:
    compared = (
        Compared("net", "rk3588", "w8a8", 8, Agreement(0.99, 0.9991, 0.99), Agreement(0.99, 0.9982, 0.98)),
        Compared("lm", "rk3588", "w8a8", 8, Agreement(1, 0.9, 0.8, 0.01, 0.99), Agreement(1, 0.95, 0.9, 0.02, 0.98)),
        Compared("conv", "rk3576", "w4a16_g32", 8, None, None, "no weight can be stored so"),
    )
    return RockchipEmulation("2026-11-30", "toolkit 1.0", compared)


def rockchip_repair() -> RockchipRepair:
    rows = (
        RepairRow("the toolkit alone", 0.56, 0.55, False, 1_000_000, 0),
        RepairRow("algorithm mmse", None, None, False, None, 0),
        RepairRow("2 values in float16", 0.997, 0.996, True, 1_200_000, 2),
    )
    case = RepairCase("Two layers.", 0.99, True, rows, ("`a` +10 bytes, +3 cycles",))
    return RockchipRepair("2026-11-30", "rknn-toolkit2 2.5.0", "rk3588", "w8a8", 8, (case,))


def telemetry_cost() -> TelemetryCost:
    return TelemetryCost(
        "2026-11-30", "a CPU", 2000, 0.5, (TelemetryRow("virtual rk3588", 13, 30, 0.0005, 0.0005),), 0.005, True
    )


def rehearsal() -> RehearsalResult:
    served = (Served("emergency", 10, 0, 10, 0.3, 0.5, 0.6, 1.8, 1.9),)
    levels = {"as asked": 0.9, "at most 2 at once": 0.1}
    held = RehearsalRun(True, 78.0, 0.0, False, 0, 56, 6, 6.0, levels, 0.2, 1000, 500, 70.0, 60.0, served)
    alone = RehearsalRun(False, 91.0, 7200.0, False, 3, 0, 0, None, {}, 0.2, 1000, 500, 50.0, 40.0, served)
    return RehearsalResult(
        "2026-11-30", "a CPU", 0.5, "rk3588", ("idle_w",), 72.0, 1, (28.0, 48.0), 85.0, 3.0, (held, alone), 120.0, True
    )
