"""Reports for reading: the table, the full text, Markdown."""
