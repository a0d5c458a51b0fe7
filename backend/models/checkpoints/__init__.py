"""Checkpoints: finding, checking, identifying and loading model folders."""
