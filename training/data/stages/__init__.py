"""Stages that turn trajectories and prompts into published data: planner rows, sequences, packed sets."""
