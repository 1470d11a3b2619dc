"""Nodes and weights as CSV."""
