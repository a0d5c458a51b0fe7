"""The answers of agents: found in a reply, parsed tolerantly in form only, and written strictly."""

from .reading import read_plan, read_verdict, write_plan, write_verdict

__all__ = ["read_plan", "read_verdict", "write_plan", "write_verdict"]
