"""The commands `evaluate ...`."""
