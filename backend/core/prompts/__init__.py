"""Prompt sets, and what is recorded about the checkpoints that were trained with them."""
