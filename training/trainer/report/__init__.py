"""What a training reports: its line of progress, and the page at its end."""
