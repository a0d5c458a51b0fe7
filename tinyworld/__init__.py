"""The miniature world that proves and shows the whole system on a CPU: its runtime, and the lab that trains it."""
