"""Pipelines: stages side by side in threads of their own, for models that answer in one run."""
