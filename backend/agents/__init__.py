"""Planner and critic: a prompt set, a chat model and the reader of answers, put together."""
