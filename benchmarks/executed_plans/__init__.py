"""GRPO of the planner by its plans' texts, and by the images of executing them, compared."""
