"""The version of this program; a leaf, so that what writes it down does not import the package."""

from __future__ import annotations

__version__ = "0.1.0"
