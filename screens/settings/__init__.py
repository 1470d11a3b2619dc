"""The configuration, themes, and the saved view of each model."""
