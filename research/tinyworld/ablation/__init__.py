"""Ablation of the training stages: the paper's table reproduced in the tiny world, over several seeds."""
