"""Decides on held-out rows whether a trained checkpoint may replace the one it started from."""
