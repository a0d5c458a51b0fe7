"""The proof that each stage of training helps: the published ablation in the tiny world, over several
seeds."""
