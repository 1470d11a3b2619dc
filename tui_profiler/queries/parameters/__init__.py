"""Statistics of parameters: per tensor, and summed per node."""
