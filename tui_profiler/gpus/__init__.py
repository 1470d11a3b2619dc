"""NVIDIA GPUs through NVML: figures of each, and who computes on it; no torch."""
