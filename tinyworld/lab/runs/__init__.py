"""Runs many stories, generating and judging in batches."""
