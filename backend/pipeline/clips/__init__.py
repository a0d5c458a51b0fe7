"""Makes the clips of a story: attempts, and a critic of clips."""
