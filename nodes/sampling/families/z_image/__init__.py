"""Z-Image and models of the same architecture."""
