"""Connections to remote services: addresses, keys, retries."""
