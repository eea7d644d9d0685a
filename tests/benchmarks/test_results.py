from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from benchmarks.agent_traces_results import AgentTraces
from benchmarks.board_results import RehearsalResult, TelemetryCost
from benchmarks.chip_results import RockchipEmulation, RockchipModels
from benchmarks.decoder_results import RockchipDecoders
from benchmarks.exchange_results import ExchangeCost
from benchmarks.isolation_results import IsolationCost
from benchmarks.llamacpp_engine_results import EngineBesideServer
from benchmarks.logits_check_results import LogitsCheckCost
from benchmarks.pipeline_results import PipelineResult
from benchmarks.planted_results import PlantedDamage
from benchmarks.repair_results import RockchipRepair
from benchmarks.results import RESULTS, BuildTime, DecodePrefill, Drift, Rockchip, WriteMemory, load, save
from benchmarks.serving_results import Serving
from benchmarks.soak_results import Soak
from benchmarks.summary import rate, ratios
from benchmarks.verify_results import VerifyTime
from tests.benchmarks import samples

KINDS = {
    "decode_prefill": DecodePrefill, "drift": Drift, "build_time": BuildTime, "rockchip": Rockchip,
    "rockchip_repair": RockchipRepair, "write_memory": WriteMemory,
    "rockchip_models": RockchipModels, "rockchip_emulation": RockchipEmulation,
    "rockchip_decoders": RockchipDecoders, "verify_time": VerifyTime,
    "planted_damage": PlantedDamage, "serving": Serving, "telemetry_cost": TelemetryCost, "rehearsal": RehearsalResult,
    "logits_check": LogitsCheckCost, "isolation": IsolationCost, "pipeline": PipelineResult,
    "agent_traces": AgentTraces, "soak": Soak, "llamacpp_engine": EngineBesideServer,
    "exchange": ExchangeCost,
}  # fmt: skip


@pytest.mark.parametrize(
    "result", [samples.decode_prefill(), samples.verify_time(), samples.build_time(), samples.write_memory()]
)
def test_a_result_comes_back_as_it_was_saved(result: object, tmp_path: Path) -> None:
    save(result, tmp_path / "r.json")
    assert load(type(result), tmp_path / "r.json") == result


@pytest.mark.parametrize(
    "change", [{"ratios": None}, {"unknown": 1}, {"workload": {"threads": "two"}}, {"machine": {"cores": 2.5}}]
)
def test_a_file_of_another_form_is_refused(change: dict, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    save(samples.decode_prefill(), path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValidationError):
        load(DecodePrefill, path)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_results_in_the_repository_are_of_their_form(path: Path) -> None:
    load(KINDS[path.stem.partition("@")[0]], path)


def test_rates_and_ratios_in_the_repository_follow_from_its_rounds() -> None:
    path = RESULTS / "decode_prefill.json"
    if not path.exists():
        pytest.skip("not run yet")
    result = load(DecodePrefill, path)
    for outcome in result.outcomes:
        assert outcome.decode == rate(result.workload.new_tokens, [one.decode_s for one in outcome.rounds])
        assert outcome.prefill == rate(result.workload.prompt_tokens, [one.prefill_s for one in outcome.rounds])
    assert result.ratios == ratios(result.outcomes)
