"""What a training tells: its progress line, its model card, and the upload of both."""
