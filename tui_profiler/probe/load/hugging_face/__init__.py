"""Hugging Face models, built from their config, offline."""
