"""Nodes that show, save, load, export and rate stories."""
