"""Parts shared by all benchmarks: items, data files, official evaluators in child processes, questions."""
