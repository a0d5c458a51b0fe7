"""Image models as a service: one ASGI app, and a pool of workers that generates images.

HTTP is implemented once (web/app.py). The pool is a protocol (pool.py) with two implementations: child
processes on this machine (process_pool/), and replicas on a Ray cluster (ray_pool/). Both generate with the
same `Drawer` (drawer.py), so the pixels do not depend on the implementation.
"""
