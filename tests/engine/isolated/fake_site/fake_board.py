"""Rockchip's runtime for language models, on a board that a folder stands for."""

from __future__ import annotations

from pathlib import Path

from chipwise.engine.rkllm import RkllmEngine


class RkllmOnAFakeBoard:
    """The engine itself; the option ``root`` names the folder."""

    name = "rkllm_on_a_fake_board"

    def open(self, files, *, n_slots, max_context, options):
        rest = {name: value for name, value in options.items() if name != "root"}
        engine = RkllmEngine(Path(options["root"]))
        return engine.open(files, n_slots=n_slots, max_context=max_context, options=rest)
