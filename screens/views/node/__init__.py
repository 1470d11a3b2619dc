"""Everything that is known of one node."""
