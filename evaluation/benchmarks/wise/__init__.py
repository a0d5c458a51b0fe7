"""WISE (Verified): images that require knowledge."""
