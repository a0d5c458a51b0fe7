"""A story as a book: a picture book as PDF, and an e-book (EPUB)."""
