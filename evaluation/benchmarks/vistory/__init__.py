"""ViStoryBench: stories in shots with reference images."""
