"""Candidate: a decoder in a recipe's precision, as files for an engine or as a toolkit compiled it."""

from __future__ import annotations

from chipwise.build.compiled_decoder import CompiledDecoder
from chipwise.build.graph_files import GraphFiles

Candidate = GraphFiles | CompiledDecoder
