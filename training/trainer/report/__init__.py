"""Reports of a training: its progress line, and the report page at its end."""
