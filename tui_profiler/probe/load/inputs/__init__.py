"""Which inputs a model is called with: typed, its own examples, or guessed."""
