"""Families of other makers that edit with the host's own nodes."""
