"""The file by which reports of emulated builds say how far emulation is to be trusted, from what was measured."""

from __future__ import annotations

import json

from benchmarks.chip_results import RockchipEmulation
from benchmarks.model import ROOT
from chipwise.quant.emulation_evidence import FILE

EVIDENCE = ROOT / "src" / "chipwise" / "quant" / FILE


def evidence(result: RockchipEmulation) -> str:
    """Its text."""
    lines = [
        "# What emulation read, and what the vendor's simulator read, against float32. Written by",
        "# `python -m benchmarks.rockchip_emulation`: do not edit.",
        "figures = [",
    ]
    for one in result.compared:
        if one.emulated is None or one.simulated is None:
            continue
        pairs = {
            "channel_cosine": (one.emulated.mean, one.simulated.mean),
            "kl_nats": (one.emulated.kl_mean_nats, one.simulated.kl_mean_nats),
        }
        for measure, (emulated, simulated) in pairs.items():
            if emulated is not None and simulated is not None:
                fields = {
                    "vendor": "Rockchip", "chip": one.chip, "scheme": one.scheme.split("_")[0], "model": one.model,
                    "measure": measure, "emulated": round(emulated, 6), "simulated": round(simulated, 6),
                    "source": f"{result.toolkit}, {result.date}",
                }  # fmt: skip
                lines.append(f"  {{ {', '.join(f'{key} = {json.dumps(value)}' for key, value in fields.items())} }},")
    return "\n".join([*lines, "]", ""])
