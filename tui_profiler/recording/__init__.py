"""A session on disk: the wire's own bytes in frames that can be checked, one behind another."""
