from __future__ import annotations

import platform

import numpy as np

from chipwise.report.environment import versions


def test_names_what_is_installed_only() -> None:
    found = versions(("numpy", "no-such-package"))
    assert found["numpy"] == np.__version__
    assert found["python"] == platform.python_version()
    assert "no-such-package" not in found
