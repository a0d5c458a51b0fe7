"""Generators that run diffusers pipelines."""
