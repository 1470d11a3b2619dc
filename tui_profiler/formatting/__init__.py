"""Text: hostile text made safe, bars and sparklines, log-log plots."""
