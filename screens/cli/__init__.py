"""The command line: the arguments and options of each verb, and what a verb starts."""
