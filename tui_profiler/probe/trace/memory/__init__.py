"""Lives of tensors during a trace, and the peak they make."""
