"""Trains a critic on a user's own annotated runs."""
