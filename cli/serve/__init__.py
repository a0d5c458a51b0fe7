"""`interleave-thinker serve` and its subcommands."""
