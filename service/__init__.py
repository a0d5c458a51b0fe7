"""Image models as a service: one ASGI app, and a pool of workers that generates images.

HTTP is implemented once (web/app.py). The pool is a protocol (pool.py) with two implementations: a thread per
model in this process (local_pool.py), and replicas on Ray for several devices or machines (ray_pool/). Both
generate with the same `Drawer` (drawer.py), so the pixels do not depend on the implementation.
"""
