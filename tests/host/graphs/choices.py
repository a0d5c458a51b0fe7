"""Inputs whose choices differ from machine to machine."""

from __future__ import annotations

FOUND_HERE = {
    ("InterleaveLoadAgent", "agent"),
    ("InterleaveDiffusersGenerator", "lora"),
    ("InterleaveLoadAgent", "adapter"),
    ("InterleaveLoadAgent", "prompts"),
    ("InterleaveHostAgent", "prompts"),
    ("InterleaveRemoteAgent", "prompts"),
    ("InterleaveLoadTrajectory", "story"),
}
"""Lists that show what lies in a folder, beside a few words of ours."""
