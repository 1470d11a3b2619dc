"""The terminal itself: driver and signals, glyph sets."""
