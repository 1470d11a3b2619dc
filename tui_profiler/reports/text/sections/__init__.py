"""The full report, section by section: one file each, and each a pure question of a session."""
