"""What every kind of advice is made from: times, operators, values, text."""
