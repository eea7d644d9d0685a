from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.target.host.cpuinfo import parse
from tests.target.host.trees import ARM_CPU, X86_CPU

X86 = "\n".join(X86_CPU.format(n=n) for n in range(4))
ARM = "\n".join(ARM_CPU.format(n=n, variant="2", part="d05" if n < 4 else "d0b") for n in range(8))


def test_x86() -> None:
    cpu = parse(X86, frozenset({0, 1, 2, 3}))
    assert cpu.model == "Intel(R) Xeon(R) Processor"
    assert cpu.vendor == "Intel"
    assert cpu.clusters == {"Intel(R) Xeon(R) Processor": 4}
    assert cpu.features == (
        *("avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_int8"),
        "amx_bf16",
    )


def test_arm_counts_the_kinds_of_cores() -> None:
    cpu = parse(ARM, frozenset(range(8)))
    assert cpu.model == "cortex-a55 + cortex-a76"
    assert cpu.vendor == "Arm"
    assert cpu.clusters == {"cortex-a55": 4, "cortex-a76": 4}
    assert cpu.features == ("asimd", "fphp", "asimdhp", "asimddp")


def test_only_usable_cores_count() -> None:
    assert parse(ARM, frozenset({4, 5})).clusters == {"cortex-a76": 2}
    assert parse(ARM, frozenset()).clusters == {"cortex-a55": 4, "cortex-a76": 4}
    assert parse(ARM, frozenset({77})).clusters == {"cortex-a55": 4, "cortex-a76": 4}


def test_a_feature_counts_only_if_all_cores_have_it() -> None:
    mixed = ARM.replace("asimddp", "", 1)
    assert "asimddp" not in parse(mixed, frozenset()).features
    assert "asimddp" in parse(mixed, frozenset({4, 5, 6, 7})).features


@pytest.mark.parametrize(("old", "new"), [("0xd05", "0xfff"), ("0xd05", "junk"), ("0x41", "0x99")])
def test_a_core_nobody_knows_keeps_its_number(old: str, new: str) -> None:
    first = next(iter(parse(ARM.replace(old, new), frozenset()).clusters))
    assert first.startswith("part 0x") or first == "part junk of 0x41"


LINES = ("", ":", "junk", "CPU", *X86.splitlines()[:6], *ARM.splitlines()[:10], "processor\t: x", "CPU part: 0x")


@given(st.lists(st.sampled_from(LINES) | st.text(st.sampled_from("processor\t: 0x41flagsCPU pt"), max_size=20)))
def test_any_text_is_read(lines: list[str]) -> None:
    content = "\n".join(lines)
    cpu = parse(content, frozenset({0}))
    assert all(count > 0 for count in cpu.clusters.values())
    assert sum(cpu.clusters.values()) <= content.count("processor")
    assert cpu.vendor


def test_nothing_is_unknown() -> None:
    cpu = parse("", frozenset({0}))
    assert (cpu.model, cpu.vendor, cpu.clusters, cpu.features) == ("", "unknown", {}, ())
