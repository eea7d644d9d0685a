"""What lowering and raising an opset takes beside the standard converter."""

from __future__ import annotations
