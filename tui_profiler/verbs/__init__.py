"""Headless verbs of the command line: start a source, fold until finished, hand the session on."""
