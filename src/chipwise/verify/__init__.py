"""Verification: does the candidate still do the user's task as the reference does."""
