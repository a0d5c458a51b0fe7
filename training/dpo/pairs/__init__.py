"""Creation of preference pairs from runs and from sampled answers."""
