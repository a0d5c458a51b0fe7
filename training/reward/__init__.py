"""Rewards of planner and critic for GRPO."""
