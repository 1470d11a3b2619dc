"""The tree of nodes: what is drawn, which columns, moving from node to node."""
