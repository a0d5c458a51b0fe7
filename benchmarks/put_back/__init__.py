"""Measures `backend/drift/put_back.py` on made edits whose truth is known."""
