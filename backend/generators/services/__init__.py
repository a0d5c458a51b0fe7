"""Image services over HTTP: one client for each protocol that they speak."""
