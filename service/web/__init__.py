"""HTTP: the routes, what they read, and what they answer."""
