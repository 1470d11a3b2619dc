"""The values of parameters: one by one, and rolled up."""
