from __future__ import annotations

from benchmarks.chip_results import RockchipEmulation
from benchmarks.emulation_evidence import EVIDENCE, evidence
from benchmarks.render_chips import rockchip_emulation, rockchip_models
from benchmarks.results import RESULTS, load
from tests.benchmarks import samples


def test_a_build_shows_what_it_reached_where_it_runs_and_what_it_took() -> None:
    page = "\n".join(rockchip_models(samples.rockchip_models()))
    assert "- `net`: a net; images." in page
    assert "| net | rk3588 | w8a8 | passed, repaired: clip | 0.9980, 0.9712 | 40 / 3 | 2.5 MB | 12 s | 600 MB |" in page
    assert "| lm | rk3576 | w4a16 | **failed** | KL 0.02 nats, same token 97.0% | 1 / 0 | 0.0 MB | 2 s |  |" in page


def test_a_refused_build_is_a_row_with_the_reason() -> None:
    page = "\n".join(rockchip_models(samples.rockchip_models()))
    assert "| vad | rk3588 | fp16 | **not built** | If is control flow | | | | |" in page


def test_ours_stands_beside_the_plain_toolkit_of_the_same_chip_and_scheme() -> None:
    lines = rockchip_models(samples.rockchip_models())
    rows = lines[lines.index("|---|---|---|---|---|---|---|") + 1 :]
    assert rows[0] == "| net | rk3588 | w8a8 | 0.9500, 0.1200 | 0.9980, 0.9712 | 5, 3 | 2.6 MB, 2.5 MB |"
    refused = "not built: load_onnx: a / dynamic graph | not built: If is control flow"
    assert rows[1] == f"| vad | rk3588 | fp16 | {refused} | none, none | none, none |"
    assert rows[2] == ""


def test_emulation_tells_by_how_much_it_was_optimistic() -> None:
    page = "\n".join(rockchip_emulation(samples.rockchip_emulation()))
    assert "| net | rk3588 | w8a8 | 0.9991, 0.9900 | 0.9982, 0.9800 | +0.0009 |" in page
    assert "| -0.0500, +0.01 nats |" in page
    assert "| conv | rk3576 | w4a16_g32 | **not compared**: no weight can be stored so | | |" in page


def test_reports_carry_what_was_measured() -> None:
    assert EVIDENCE.read_text("utf-8") == evidence(load(RockchipEmulation, RESULTS / "rockchip_emulation.json"))
    kept = evidence(samples.rockchip_emulation())
    assert 'scheme = "w8a8", model = "net", measure = "channel_cosine", emulated = 0.9991, simulated = 0.9982' in kept
    assert 'model = "lm", measure = "kl_nats", emulated = 0.01, simulated = 0.02' in kept
    assert "conv" not in kept
