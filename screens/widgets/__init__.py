"""Widgets: each takes a value and shows one thing about it; none knows a sibling."""
