"""Guard against benchmark contamination: an index of benchmarks, and checks of training data."""
