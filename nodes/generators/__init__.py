"""Nodes for image models."""
