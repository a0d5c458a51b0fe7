"""Generation of requests from a taxonomy, templates and word banks."""
