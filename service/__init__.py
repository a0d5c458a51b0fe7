"""Image models as a service: one ASGI app, and a pool of workers that generates images."""
