"""Training of planner and critic checkpoints: data, SFT, GRPO and their gate. Imports only backend."""
