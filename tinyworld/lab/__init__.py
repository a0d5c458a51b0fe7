"""How the tiny world's checkpoints are made and measured: data with honest mistakes, a small trainer, the ablation."""
