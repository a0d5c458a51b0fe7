"""A story's way from the plan to its last accepted image: agents, loop, journal."""
