"""Other counters on the same model, each in a worker of its own: they change what they see."""
