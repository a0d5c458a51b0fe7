"""Commands that join the command line as plug-ins (`[project.entry-points]` in pyproject.toml)."""
