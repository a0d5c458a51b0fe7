"""GRPO training of planner and critic."""
