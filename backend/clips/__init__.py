"""Clips: short videos that lead from one image of a story to the next."""
