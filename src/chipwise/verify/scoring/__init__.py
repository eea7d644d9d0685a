"""Scoring: whether an answer says what it must, by rules alone, in English and Chinese."""
