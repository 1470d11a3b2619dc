"""Sections of the JSON report, one file each."""
