"""How the tiny world's three checkpoints are made: data with honest mistakes, and one small trainer for the
generator."""
