"""Memory estimates and placement of models on GPUs."""
