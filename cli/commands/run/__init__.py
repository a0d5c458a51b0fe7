"""The command `run`, and the commands that decide about its steps."""
