"""Training of planner and critic checkpoints: data, SFT, evaluation. Imports backend, never nodes."""
