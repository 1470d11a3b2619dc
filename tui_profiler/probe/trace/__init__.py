"""The recorder, and what runs under it: a live module to a tree of nodes."""
