"""Nodes Attempt Start and Attempt End, and their expansion."""
