"""Benchmark runs: generate the answers, collect a submission, score it, compare scores, write pages."""
