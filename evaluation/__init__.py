"""Benchmarks of whole stories, the judges that score them, and their results. Imports backend and training."""
