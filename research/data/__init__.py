"""Requests, trajectories and rows of the published training sets."""
