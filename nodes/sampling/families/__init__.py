"""Model families of the host: one module in a maker's folder per family, found by the registry."""
