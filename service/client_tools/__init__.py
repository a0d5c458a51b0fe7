"""A running image service seen from outside: whether it answers correctly, and a balancer for several."""
