"""Agents that run in this process, with transformers."""
