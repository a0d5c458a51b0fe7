"""Conversion of run folders and their feedback to training data of a critic."""
