"""Where the time of a training step goes: its parts, and the backward of each module."""
