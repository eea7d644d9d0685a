"""Folders of small models, written once a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.model.decoder.random_models import write_folder


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The Hugging Face folder of a case of ``random_models.CASES``."""
    root = tmp_path_factory.mktemp("models")
    return lambda case: root / case if (root / case).exists() else write_folder(case, root / case)
