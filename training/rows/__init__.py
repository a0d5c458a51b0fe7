"""Formats of training rows: reading, checking and writing."""
