"""Health of values: what activations, gradients and updates are like in steps of training."""
