"""Every kind of change that is tried, one file each."""
