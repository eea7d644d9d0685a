"""Bundles: a model made ready for a target, as a folder of content-addressed files under one manifest."""

from __future__ import annotations

from chipwise.bundle.bundle import Bundle, open_bundle
from chipwise.bundle.entries import (
    EngineSpec,
    Fallback,
    FileEntry,
    GraphTest,
    LogitSample,
    ModelInfo,
    SelfTest,
    TensorEntry,
)
from chipwise.bundle.graph_test import keep_graph_test, record_graph_test, run_graph_test
from chipwise.bundle.manifest import Manifest
from chipwise.bundle.self_test import record_self_test, run_self_test
from chipwise.bundle.writer import BundleWriter, refuse_taken

__all__ = [
    "Bundle",
    "BundleWriter",
    "EngineSpec",
    "Fallback",
    "FileEntry",
    "GraphTest",
    "LogitSample",
    "Manifest",
    "ModelInfo",
    "SelfTest",
    "TensorEntry",
    "keep_graph_test",
    "open_bundle",
    "record_graph_test",
    "record_self_test",
    "refuse_taken",
    "run_graph_test",
    "run_self_test",
]
