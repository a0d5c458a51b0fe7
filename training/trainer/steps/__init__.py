"""The steps of a training: what all processes decide after one, ending early, and the cost of some."""
