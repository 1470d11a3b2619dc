"""The configuration, and how each model was looked at last."""
