"""Every parameter with its statistics."""
