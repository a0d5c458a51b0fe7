"""FLUX models and models of the same class."""
