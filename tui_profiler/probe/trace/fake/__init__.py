"""Running on fake tensors: shapes without values."""
