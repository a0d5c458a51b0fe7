"""Compares the classes of the published code with this package on scripted work, without model weights."""
