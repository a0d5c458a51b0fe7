"""Planner and critic: agents made of a prompt set, a chat model and an answer parser."""
