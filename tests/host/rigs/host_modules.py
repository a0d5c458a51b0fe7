"""Loads the host's modules and the pack in the host's own Python, like its server.

Rigs run as `python RIG COMFYUI REPOSITORY` and import this first.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

COMFY, ROOT = sys.argv[1:3]
sys.argv = ["main.py", "--cpu"]
sys.path.insert(0, COMFY)

import comfy.options  # noqa: E402
import utils.install_util  # noqa: E402, F401 - before the host puts a folder with another `utils` first

comfy.options.enable_args_parsing()

import server  # noqa: E402, F401 - before the pack, as in the host

spec = importlib.util.spec_from_file_location(
    "interleave_thinker", f"{ROOT}/__init__.py", submodule_search_locations=[ROOT]
)
assert spec is not None and spec.loader is not None
package = importlib.util.module_from_spec(spec)
sys.modules["interleave_thinker"] = package
spec.loader.exec_module(package)
# Without its __init__, which writes weights into the host's folders.
shim = sys.modules["shim"] = ModuleType("shim")
shim.__path__ = [f"{ROOT}/tests/host/shim_pack"]
