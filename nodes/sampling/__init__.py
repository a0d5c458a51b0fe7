"""Image generation with models loaded by the host."""
