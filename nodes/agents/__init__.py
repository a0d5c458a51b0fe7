"""Nodes for agents, and agents under the host's memory management and cancel button."""
