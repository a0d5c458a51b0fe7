"""Capacity and overhead of the generator service: commands that start it, load it and print figures."""
