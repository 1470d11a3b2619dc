"""What limits a node, and what a model costs: arithmetic, memory, energy, roofline."""
