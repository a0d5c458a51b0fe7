"""The live view of a run: its messages, and the requests of the page."""
