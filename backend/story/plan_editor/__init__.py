"""Edits of a plan as text: parsing, merging with a new plan of the planner, and writing."""
