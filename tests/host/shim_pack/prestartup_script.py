"""Hides what INTERLEAVE_TEST_WITHOUT names (`module.name`, with commas) from users of `sys.modules`.

It runs before the host is imported. The host keeps its own names; only code that looks the module up in
`sys.modules`, as the pack does for internals, finds one without the name.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any


class Without(ModuleType):
    """A module that lacks some names."""

    def __init__(self, real: ModuleType, names: set[str]) -> None:
        super().__init__(real.__name__)
        self.__dict__.update(_real=real, _names=names)

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__["_names"]:
            raise AttributeError(name)
        return getattr(self.__dict__["_real"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["_real"], name, value)


taken: dict[str, set[str]] = {}
for one in filter(None, os.environ.get("INTERLEAVE_TEST_WITHOUT", "").split(",")):
    module, _, attribute = one.rpartition(".")
    taken.setdefault(module, set()).add(attribute)
for module, names in taken.items():
    sys.modules[module] = Without(importlib.import_module(module), names)
