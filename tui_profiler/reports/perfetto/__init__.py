"""A session as a Perfetto trace."""
