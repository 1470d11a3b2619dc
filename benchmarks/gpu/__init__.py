"""What is measured on a GPU; every script says so where there is none."""
