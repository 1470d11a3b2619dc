"""The start screen, and the list of running programs to choose from."""
