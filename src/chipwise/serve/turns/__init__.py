"""Engines that take turns, and the time that is left between those of requests."""
