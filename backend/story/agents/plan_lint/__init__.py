"""Checks a plan before anything is generated: pure functions from a plan and its request to findings."""
