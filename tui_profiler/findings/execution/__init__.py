"""Advice on how the model is run."""
