"""Pure questions asked of a session."""
