"""A miniature world that shows the whole system on a CPU: its runtime, and the lab that trains it."""
