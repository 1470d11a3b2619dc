"""Scripts that train, unmodified, as the documentation of their libraries has them."""
