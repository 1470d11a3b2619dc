"""TorchScript, walked node by node."""
