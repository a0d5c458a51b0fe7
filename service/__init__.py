"""Image models as a service: one ASGI app, and behind it a pool that draws.

Decision: HTTP is written once (web/app.py). Who draws is a seam (pool.py) with two implementations: child
processes of this machine (process_pool/), and replicas on a Ray cluster (ray_pool/). Both draw with the
same `Drawer` (drawer.py), so a pixel does not depend on who ran it.
"""
