"""How well scorers agree with people's verdicts on a user's own runs."""
