"""Damaged and malicious files, for the tests and for ``benchmarks/hostile/hostile_files.py``."""
