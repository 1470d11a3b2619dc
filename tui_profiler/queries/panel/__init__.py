"""What panels, header and footer say of a session."""
