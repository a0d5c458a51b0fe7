"""Test-only node pack: tiny weights for the host's own loaders, and nodes that stand in for a good agent.

Official graphs keep their official loader nodes, so what is tested is what an artist runs; only the
sizes that the host hard-codes for the text encoder and the VAE are read from the file instead. Full-size
files go through the host's original code. The names replaced here are private to the host: should they move,
every klein test fails with a size mismatch.
"""

from __future__ import annotations

from . import odd_values, stand_ins
from .declared import NODE_CLASS_MAPPINGS
from .read_nodes import STAND_INS
from .tiny_families import show_encoders_less
from .tiny_files import load_stand_ins, write_stand_ins
from .tiny_weights import accept_tiny_weights, write_tiny_weights

__all__ = ["NODE_CLASS_MAPPINGS", "odd_values", "stand_ins"]

import nodes

NODE_CLASS_MAPPINGS.update(
    {name: node for name, node in STAND_INS.items() if name not in nodes.NODE_CLASS_MAPPINGS}
)
accept_tiny_weights()
show_encoders_less()
write_tiny_weights()
load_stand_ins()
write_stand_ins()
