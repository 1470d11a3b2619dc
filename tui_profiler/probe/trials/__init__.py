"""Trials: one file per kind, and the experiment that they share."""
