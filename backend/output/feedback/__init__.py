"""The user's feedback on attempts, and training rows created from it."""
