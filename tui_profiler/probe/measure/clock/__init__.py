"""The module clock: when each call began and ended, added up, and what that costs."""
