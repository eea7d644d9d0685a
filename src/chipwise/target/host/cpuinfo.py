"""CpuInfo: what /proc/cpuinfo says of the processor, on x86 and on Arm."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

# Instruction sets that decide how fast a model runs, as Linux names them, x86 then Arm.
ISA_FEATURES = (
    *("avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16"),
    *("asimd", "fphp", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2"),
)

# Arm's part numbers (MIDR_EL1, "CPU part" in /proc/cpuinfo) of implementer 0x41; Arm's technical reference manuals.
_ARM_PARTS = {
    0xD03: "cortex-a53",
    0xD04: "cortex-a35",
    0xD05: "cortex-a55",
    0xD07: "cortex-a57",
    0xD08: "cortex-a72",
    0xD09: "cortex-a73",
    0xD0A: "cortex-a75",
    0xD0B: "cortex-a76",
    0xD0C: "neoverse-n1",
    0xD0D: "cortex-a77",
    0xD40: "neoverse-v1",
    0xD41: "cortex-a78",
    0xD42: "cortex-a78ae",
    0xD44: "cortex-x1",
    0xD46: "cortex-a510",
    0xD47: "cortex-a710",
    0xD48: "cortex-x2",
    0xD49: "neoverse-n2",
    0xD4D: "cortex-a715",
    0xD4F: "neoverse-v2",
}
_VENDORS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD", "0x41": "Arm", "0x51": "Qualcomm", "0x61": "Apple"}


@dataclass(frozen=True)
class CpuInfo:
    """The processor.

    Attributes:
        model: The marketing name, or the cores' names joined; empty if unknown.
        vendor: Who made it; ``unknown`` if the kernel does not say.
        clusters: Cores by kind, in the kernel's order, e.g. ``{"cortex-a55": 4, "cortex-a76": 4}``; one entry on x86.
        features: The instruction sets of `ISA_FEATURES` that every core has.
    """

    model: str
    vendor: str
    clusters: dict[str, int]
    features: tuple[str, ...]


def parse(content: str, usable: frozenset[int]) -> CpuInfo:
    """Read the text of /proc/cpuinfo.

    Args:
        content: The text; anything that is no ``key : value`` line is skipped.
        usable: The CPUs to count; empty for all.
    """
    blocks = [b for b in map(_block, content.split("\n\n")) if "processor" in b]
    if usable:
        blocks = [b for b in blocks if b["processor"].isdigit() and int(b["processor"]) in usable] or blocks
    if not blocks:
        return CpuInfo("", "unknown", {}, ())
    kinds = Counter(_kind(block) for block in blocks)
    common = set.intersection(*(set((b.get("flags") or b.get("Features") or "").split()) for b in blocks))
    first = blocks[0]
    maker = first.get("vendor_id") or first.get("CPU implementer") or ""
    return CpuInfo(
        model=first.get("model name") or " + ".join(kind for kind in kinds if kind),
        vendor=_VENDORS.get(maker, maker or "unknown"),
        clusters={kind: n for kind, n in kinds.items() if kind},
        features=tuple(feature for feature in ISA_FEATURES if feature in common),
    )


def _block(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _kind(block: dict[str, str]) -> str:
    part = block.get("CPU part", "")
    if not part:
        return block.get("model name", "")
    implementer = block.get("CPU implementer", "unknown")
    try:
        number = int(part, 16)
    except ValueError:
        return f"part {part} of {implementer}"
    known = _ARM_PARTS.get(number) if implementer == "0x41" else None
    return known or f"part {part} of {implementer}"
