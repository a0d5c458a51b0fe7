"""Supervised fine-tuning of planner and critic."""
