"""Times of nodes: per forward, over the run, over the last minutes."""
