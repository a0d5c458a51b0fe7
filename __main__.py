"""`python -m interleave_thinker`, or `python FOLDER-OF-THIS-FILE`: the command line.

ComfyUI's users start it by the path of the pack, whose folder may have any name and need not be on Python's
path. The archive of the Comfy Registry contains no command line; there, only `prompts import` works.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
NAME = "interleave_thinker"


def package() -> str:
    """Return the name of this package. Started by its path, it is imported first."""
    if __package__:
        return __package__
    # Python put the folder itself first, where `nodes` or `service` would hide modules of other packages.
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != HERE]
    spec = spec_from_file_location(NAME, HERE / "__init__.py", submodule_search_locations=[str(HERE)])
    assert spec is not None and spec.loader is not None
    module = sys.modules[NAME] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return NAME


def main() -> None:
    """Run the command line."""
    name = package()
    commands: Any = import_module(
        ".cli" if (HERE / "cli").is_dir() else ".backend.core.prompts.importer", name
    )
    commands.main()


if __name__ == "__main__":
    main()
