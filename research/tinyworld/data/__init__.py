"""Training rows and prompts of the tiny world's agents."""
