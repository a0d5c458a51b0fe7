"""Stages that make training data: requests, trajectories, rows."""
