"""Serving: requests over HTTP, batched continuously on one session by a pure scheduler and one thread."""
