"""Interop: cases from the files of other tools."""
