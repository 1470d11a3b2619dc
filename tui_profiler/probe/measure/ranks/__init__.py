"""One rank of a distributed run: its steps, and waiting for collectives."""
