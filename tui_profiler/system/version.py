"""The version of this program; a leaf, so that what writes it down does not import the package."""

__version__ = "0.1.0"
