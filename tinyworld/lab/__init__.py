"""How the tiny world's checkpoints are trained and measured."""
