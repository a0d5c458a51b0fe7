"""What is made of a run: files, reports, the live view."""
