"""`interleave-thinker serve` and the commands beside it."""
