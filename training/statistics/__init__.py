"""Confidence intervals, tests and the bootstrap."""
