"""What a verb does once its arguments are read: source, worker, app or report."""
