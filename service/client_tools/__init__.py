"""Tools for a running image service: a check of its answers, and a load balancer configuration."""
