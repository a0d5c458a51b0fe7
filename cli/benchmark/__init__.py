"""The commands `benchmark ...`."""
