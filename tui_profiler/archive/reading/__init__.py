"""Bounded reading of files that may be hostile, and what was found in them."""
