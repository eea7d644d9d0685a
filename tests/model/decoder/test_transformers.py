"""The written graphs against transformers itself, and the stored answers of the quick tests against it too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.model.decoder.random_models import CASES
from tests.model.decoder.sessions import check_session, distance, fused_session, golden, portable_session
from tests.model.decoder.write_golden import reference

pytestmark = pytest.mark.slow
Folder = Callable[[str], Path]


@pytest.mark.parametrize("case", CASES)
def test_every_graph_answers_as_transformers(case: str, model_folder: Folder, tmp_path: Path) -> None:
    """The model as transformers saves it, read and written in each form, against transformers in float32."""
    from transformers import AutoModelForCausalLM

    saved = tmp_path / "saved"
    AutoModelForCausalLM.from_pretrained(model_folder(case)).save_pretrained(saved)
    wanted = reference(saved, double=False)
    check_session(portable_session(saved, tmp_path), wanted)
    check_session(portable_session(saved, tmp_path, prefill=(1, 16), decode=(1, 1)), wanted)
    check_session(portable_session(saved, tmp_path, prefill=(1, 20), decode=(2, 1)), wanted)
    check_session(fused_session(saved, tmp_path), wanted)


@pytest.mark.parametrize("case", CASES)
def test_stored_answers_are_those_of_transformers(case: str, model_folder: Folder) -> None:
    assert distance(golden(case), reference(model_folder(case), double=True)) < 1e-6
