"""The rows of the tree: folds, filter, order, columns, names."""
