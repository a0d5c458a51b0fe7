"""Trajectories of thousands of prompts, created by teacher models."""
