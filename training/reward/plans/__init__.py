"""Reward of a planner: judges of plans and the reward's terms."""
