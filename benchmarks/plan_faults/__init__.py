"""Experiment: how many planted faults of plans the lint finds, and how many false alarms it raises."""
