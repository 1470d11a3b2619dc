"""Files and processes of this machine, for every part of the program."""
