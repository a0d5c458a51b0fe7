"""Nodes Critic Loop and Judge."""
