"""Measures `backend/put_back` on made edits whose truth is known."""
