"""Scorers with small models: similarity by CLIP or SigLIP, and a check of lettering."""
