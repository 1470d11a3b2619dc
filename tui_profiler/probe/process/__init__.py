"""The process that the probe runs in: its end of the wire, its limits, its parent."""
