"""The folder that is first on ``PYTHONPATH`` of what a script under ``run`` starts."""
