"""One model is read into memory at a time.

Decision: while they read weights, the libraries change what belongs to the whole process (the default number
type, where new modules are put). Two that read at a time would leave each other's settings behind, and with
them wrong images.
"""

from __future__ import annotations

import threading

READING = threading.RLock()
"""Held by whoever reads a model."""
