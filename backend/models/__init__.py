"""Models by name: chat models, generators, scorers, and their weights."""
