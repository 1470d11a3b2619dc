"""Two models, or one at two settings, side by side."""
