"""A running image service seen from outside: whether it answers rightly, what it bears, and a balancer before
several."""
