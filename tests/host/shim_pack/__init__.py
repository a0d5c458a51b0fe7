"""Test-only node pack: lets the host's own loaders read tiny random FLUX.2 klein weights under the official names.

Decision: official graphs keep their official loader nodes, so what is tested is what an artist runs; only the sizes
that the host hard-codes for the text encoder and the VAE are read from the file instead. Full-size files go through
the host's original code. The names replaced here are private to the host: `test_shim.py` says so when they move.
"""

from __future__ import annotations

from .tiny_weights import accept_tiny_weights, write_tiny_weights

NODE_CLASS_MAPPINGS: dict[str, type] = {}

accept_tiny_weights()
write_tiny_weights()
