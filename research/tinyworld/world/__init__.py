"""Stories, requests, scenes and mistakes of the tiny world."""
