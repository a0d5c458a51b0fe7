"""The loop: plan, generate, judge and try again, as a stream of typed events."""
