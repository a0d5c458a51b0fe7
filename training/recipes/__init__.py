"""Recipes: settings of the training stages as YAML files."""
