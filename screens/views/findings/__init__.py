"""Advice, and its trials."""
