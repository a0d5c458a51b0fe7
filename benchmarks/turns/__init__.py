"""Learning over several attempts in the tiny world: GRPO of the critic with one and several turns."""
