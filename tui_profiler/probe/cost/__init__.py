"""Arithmetic, traffic and peak memory of operators, on paper."""
