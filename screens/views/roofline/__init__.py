"""The roofline: plot, list of nodes, what the selected node could gain."""
