"""Compares the classes of the published code with this package on scripted cases, without model weights."""
