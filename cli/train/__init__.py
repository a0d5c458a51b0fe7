"""The commands `train ...`."""
