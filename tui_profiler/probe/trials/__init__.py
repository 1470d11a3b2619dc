"""Trials: each kind of change in a file of its own, and the experiment that all of them share."""
