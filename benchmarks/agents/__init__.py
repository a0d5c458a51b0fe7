"""Cost of the agents on identical work."""
