"""JSON reports: the contracts that other programs read."""
