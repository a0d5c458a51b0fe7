"""Preference training (DPO) of planner and critic."""
