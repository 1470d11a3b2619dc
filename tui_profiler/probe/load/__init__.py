"""From what the user named to a live module with inputs: one file per source of models."""
