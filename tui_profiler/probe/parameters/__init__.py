"""What the values of parameters are like: read in pieces, each subject in a file of its own."""
