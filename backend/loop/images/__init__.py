"""The images of a run: which of them a step is shown, and the generator calls that make them."""
