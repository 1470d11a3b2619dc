"""Energy counters, and a replay of one node to read them."""
