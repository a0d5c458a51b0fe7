"""Families that edit by image to image only."""
