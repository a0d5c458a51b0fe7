"""Model families of the host: one file for each maker or kind, listed in the registry."""
