"""Inputs that several generator nodes share, and the recommended settings of image models."""
