"""Trains and measures the tiny world's checkpoints."""
