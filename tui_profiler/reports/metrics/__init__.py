"""A session as metrics, for programs that collect them."""
