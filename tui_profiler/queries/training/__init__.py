"""Where the time of training steps goes, and what that says."""
