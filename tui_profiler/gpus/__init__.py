"""GPUs of every maker: figures of each, and who computes on it; no torch."""
