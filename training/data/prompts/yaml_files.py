"""Reads YAML files from others: bounded, with text values only, and errors that name file and line.

All values are text (`no`, `1e3` and `12:30` too), so that a word bank can contain any word; models convert
those that should be numbers.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ....backend.errors import SettingsError
from ....backend.files.bounded_reader import read_text
from ....backend.files.bounded_yaml import bounded_loader, load_yaml
from ....backend.machine.libraries import require

MAX_BYTES = 1024 * 1024
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")


def read_yaml(path: Path, what: str) -> Any:
    """Return the content of a YAML file as lists, dictionaries and texts.

    Raises:
        SettingsError: The file is invalid.
    """
    require("yaml")
    import yaml

    class Loader(bounded_loader(yaml.BaseLoader)):
        """Loader that refuses duplicate keys."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen: set[str] = set()
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise yaml.YAMLError(f"line {key.start_mark.line + 1}: a key is not a text")
                if key.value in seen:
                    raise yaml.YAMLError(f"line {key.start_mark.line + 1}: duplicate key {key.value[:60]!r}")
                seen.add(key.value)
            return super().construct_mapping(node, deep)

    text = read_text(path, MAX_BYTES, SettingsError, what)
    forbidden = _FORBIDDEN.search(text)
    if forbidden:
        line = text.count("\n", 0, forbidden.start()) + 1
        raise SettingsError(
            f"{what} {str(path)!r}, line {line} contains a control character.", "Remove the character."
        )
    return load_yaml(text, Loader, what, path)
