"""Agents that write one text about a plan or a prompt, with any chat model."""
