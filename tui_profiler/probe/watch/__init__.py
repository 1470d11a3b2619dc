"""A program that is not ours: its models observed while it runs them."""
