"""Starting our listener in a program that was never prepared for it."""
