"""Numbers: to text with their units, and sums of powers."""
