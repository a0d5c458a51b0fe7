"""The run folder: plan, images, verdicts and the user's choices on disk."""
