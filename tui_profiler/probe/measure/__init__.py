"""The module clock, this machine's ceilings, devices and power, and what watching costs."""
