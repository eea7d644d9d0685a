from __future__ import annotations

from typing import Any

import pytest

from chipwise.errors import UnknownArchitectureError
from chipwise.model.config import EncoderConfig
from chipwise.model.encoder.pooling import pooling_kind


def _config(**extra: Any) -> EncoderConfig:
    return EncoderConfig("bert", 10, 8, 8, 1, 1, 8, 2, 1e-12, extra=extra)


@pytest.mark.parametrize(
    ("extra", "kind"),
    [
        ({}, "mean"),
        ({"pooling": {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}}, "mean"),
        ({"pooling": {"pooling_mode_cls_token": True}}, "cls"),
        ({"pooling": {"pooling_mode": "cls"}}, "cls"),
    ],
)
def test_known(extra: dict[str, Any], kind: str) -> None:
    assert pooling_kind(_config(**extra)) == kind


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pooling_mode_max_tokens": True}, "pooling_mode_max_tokens is not supported"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "cls_token, pooling_mode_mean_tokens"),
        ({"pooling_mode_mean_tokens": False}, "of no kind"),
        ({"pooling_mode": "weightedmean"}, "weightedmean"),
        ({"pooling_mode": ["mean"]}, "not supported"),
    ],
)
def test_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UnknownArchitectureError, match=message):
        pooling_kind(_config(pooling=settings))
