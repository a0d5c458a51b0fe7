"""What the generator service bears and what it costs: commands that start it, strain it and print figures."""
