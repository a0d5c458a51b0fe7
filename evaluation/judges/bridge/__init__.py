"""A judge at an address of this machine, in the forms in which evaluators ask hosted ones."""

from __future__ import annotations

from .asking import Trouble
from .server import Bridge

__all__ = ["Bridge", "Trouble"]
