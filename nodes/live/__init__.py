"""Live view of a run in the browser."""
