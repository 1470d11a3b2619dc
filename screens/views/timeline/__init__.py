"""One forward by depth, and the last minutes."""
