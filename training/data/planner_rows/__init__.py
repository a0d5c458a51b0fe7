"""Conversion of trajectories and outside sets to a planner's fine-tuning rows."""
