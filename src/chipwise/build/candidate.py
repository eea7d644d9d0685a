"""Candidate: a decoder in a recipe's precision, as files for an engine, as a toolkit compiled it, or as it came."""

from __future__ import annotations

from chipwise.build.compiled_decoder import CompiledDecoder
from chipwise.build.given_file import GivenFile
from chipwise.build.graph_files import GraphFiles

Candidate = GraphFiles | CompiledDecoder | GivenFile
