"""Putting together what one server serves."""
