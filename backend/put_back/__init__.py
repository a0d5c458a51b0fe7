"""Puts the pixels of an image back where an edit did not need to change them."""
