"""GPUs of every vendor: figures of each, and the processes that use it; no torch."""
