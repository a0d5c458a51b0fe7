"""What agents answer: found in a reply, read tolerantly about form and never about meaning, written
strictly."""

from .reading import read_plan, read_verdict, write_plan, write_verdict

__all__ = ["read_plan", "read_verdict", "write_plan", "write_verdict"]
