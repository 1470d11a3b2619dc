"""A worker: one model loaded, traced, run in a loop, and asked meanwhile."""
