"""Training of the tiny world's generator and agents."""
