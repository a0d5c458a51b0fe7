"""Clips between two scenes: exact frames, planted faults, and rows for a critic of clips."""
