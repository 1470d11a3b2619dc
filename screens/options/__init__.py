"""What is typed for a model, as values: shared by the command line and by prompts."""
