"""Zip files as torch writes them, read by strict rules."""
