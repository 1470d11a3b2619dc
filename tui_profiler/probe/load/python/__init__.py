"""Models from the user's own Python code, or pickled."""
