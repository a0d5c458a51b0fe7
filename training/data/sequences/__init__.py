"""Interleaved sequences for models that generate text and images."""
