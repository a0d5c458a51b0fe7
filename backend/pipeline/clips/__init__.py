"""Makes the clips of a story: attempts, and a critic of clips."""

FRAMES = 3
"""Default number of frames of a clip that its critic sees (docs/explanation/tiny-world.md has figures)."""
FEWEST, MOST = 2, 16
ATTEMPTS = 3
"""Default maximum of attempts per clip with a critic."""
