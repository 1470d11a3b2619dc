"""The ranks of a distributed run."""
