"""The health screen: what activations, gradients and updates are like."""
