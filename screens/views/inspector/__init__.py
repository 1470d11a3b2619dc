"""The pane beside or below the tree: one node, and the machine."""
