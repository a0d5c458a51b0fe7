"""Stages that create training data: requests, trajectories, rows."""
