"""Models and weights in files: looked into, checked, then loaded."""
