"""Every counter of the hardware, and energy."""
