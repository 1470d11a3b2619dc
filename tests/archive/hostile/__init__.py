"""Files that are damaged or written to do harm, for the tests and for benchmarks/hostile_files."""
