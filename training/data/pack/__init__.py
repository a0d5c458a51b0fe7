"""Packing of rows for sharing, with a dataset card."""
