"""Measures a custom critic end to end."""
