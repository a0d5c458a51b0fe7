"""The commands `data ...`."""
