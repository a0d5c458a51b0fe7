"""Benchmarks of whole stories, their judges and their results. Imports backend and training."""
