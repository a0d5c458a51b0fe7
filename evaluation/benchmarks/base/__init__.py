"""What all benchmarks are made of: items, data files, official evaluators in child processes, questions."""
