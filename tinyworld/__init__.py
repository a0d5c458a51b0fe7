"""A miniature world that runs the whole system on a CPU: its runtime, and the lab that trains it."""
