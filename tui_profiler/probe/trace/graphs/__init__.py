"""Graphs that a tracer made: torch.fx and torch.export, run node by node."""
