"""The explorer: its screen, the parts of it, and what its keys do."""
