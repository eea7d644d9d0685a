"""The machine chipwise runs on, as a target: what it is, and how fast it was measured to be."""
