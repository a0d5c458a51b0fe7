"""A lock that allows only one model to be loaded at a time.

While libraries read weights, they change settings of the whole process, such as the default dtype and the
device of new modules. Two concurrent loads would leave each other's settings behind, which gives wrong
images.
"""

from __future__ import annotations

import threading

READING = threading.RLock()
"""Held while a model is loaded."""
