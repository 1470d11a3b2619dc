"""How much the output depends on each weight."""
