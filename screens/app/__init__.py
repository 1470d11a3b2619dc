"""The apps: read a source, keep the session, hand it to the screens."""
