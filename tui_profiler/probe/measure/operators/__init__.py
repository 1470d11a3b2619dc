"""Operator times, from windows of torch's profiler."""
