"""Decides by held-out rows whether a trained checkpoint is better than the one it started from."""
