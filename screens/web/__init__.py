"""The explorer in a browser."""
