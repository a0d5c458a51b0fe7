"""Nodes Planner and Edit Plan."""
