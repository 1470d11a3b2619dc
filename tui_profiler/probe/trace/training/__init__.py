"""A step of training, on paper and for real: forward, loss, backward, optimizer."""
