"""One file for each format of models and weights."""
