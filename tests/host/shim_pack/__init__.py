"""Test-only node pack: tiny weights for the host's own loaders, and nodes that stand in for a good agent.

Official graphs keep their official loader nodes, so what is tested is what an artist runs; only the
sizes that the host hard-codes for the text encoder and the VAE are read from the file instead. Full-size
files go through the host's original code. The names replaced here are private to the host: should they move,
every klein test fails with a size mismatch.
"""

from __future__ import annotations

from .counted import COUNTED
from .odd_values import ODD_NODES
from .passing_failures import PASSING
from .read_nodes import read_nodes
from .stand_ins import NODE_CLASS_MAPPINGS
from .tiny_control import CONTROL_NODES
from .tiny_families import FAMILY_NODES, show_encoders_less
from .tiny_files import load_stand_ins, write_stand_ins
from .tiny_weights import accept_tiny_weights, write_tiny_weights

__all__ = ["NODE_CLASS_MAPPINGS"]

import nodes

NODE_CLASS_MAPPINGS.update(read_nodes(nodes.NODE_CLASS_MAPPINGS))
NODE_CLASS_MAPPINGS.update(COUNTED | FAMILY_NODES | CONTROL_NODES | ODD_NODES | PASSING)
accept_tiny_weights()
show_encoders_less()
write_tiny_weights()
load_stand_ins()
write_stand_ins()
