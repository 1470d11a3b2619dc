"""Limits on figures of the JSON report (``--check``)."""
