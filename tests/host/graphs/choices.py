"""Inputs whose choices differ from machine to machine."""

from __future__ import annotations

FOUND_HERE = {
    ("InterleaveLoadAgent", "agent"),
    ("InterleaveDiffusersGenerator", "lora"),
    ("InterleaveLoadAgent", "adapter"),
    ("InterleaveLoadAgent", "prompts"),
    ("InterleaveLoadAgent", "notes"),
    ("InterleaveHostAgent", "prompts"),
    ("InterleaveRemoteAgent", "prompts"),
    ("InterleaveLoadTrajectory", "story"),
}
"""Lists that show the contents of a folder and a few fixed values of the pack."""
