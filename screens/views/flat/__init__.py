"""A flat table: modules by self time, classes, operators by name."""
