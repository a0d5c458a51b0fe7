"""Qwen-Image models and models of the same class."""
