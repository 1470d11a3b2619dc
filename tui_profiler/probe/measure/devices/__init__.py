"""Counters of processors, GPUs, memory, disks and network."""
