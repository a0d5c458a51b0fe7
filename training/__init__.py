"""Training of planner and critic checkpoints: data, SFT, DPO, GRPO and their gate. Imports only backend."""
