"""The stages of a training: supervised fine-tuning, GRPO, and both of them for an own critic."""
