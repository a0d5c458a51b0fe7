"""Rows and exact judge for reinforcement learning of the planner."""
