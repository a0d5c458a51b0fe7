"""Rows for GRPO training of a planner."""
