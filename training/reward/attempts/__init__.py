"""Reward of a critic that is continued over several attempts of a step."""
