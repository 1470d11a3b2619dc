"""A session as table or JSON."""
