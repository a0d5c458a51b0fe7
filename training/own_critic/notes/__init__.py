"""Critic's notes: what a user's feedback teaches a critic without training."""
