"""Certainty: what counts of cases prove, in plain arithmetic that runs on a board."""
