"""Memory over one forward."""
