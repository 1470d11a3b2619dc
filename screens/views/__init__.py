"""The screens beside the explorer: each a screen and its lines in one folder."""
