"""The tree of nodes that a trace grows, and its messages."""
