"""Two models side by side."""
