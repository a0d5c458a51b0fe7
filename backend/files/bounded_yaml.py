"""Loads untrusted YAML with a limit on aliases, because a few lines of nested aliases expand to gigabytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import SettingsError

MAX_REPEATED = 8


def bounded_loader(base: Any) -> Any:
    """Return a loader class derived from `base` that limits aliases.

    Args:
        base: Such as yaml.SafeLoader or yaml.BaseLoader.

    Returns:
        The class. It raises yaml.YAMLError for more than MAX_REPEATED aliases (`*`).
    """
    from yaml import AliasEvent, YAMLError

    class Loader(base):
        repeated = 0

        def compose_node(self, parent: Any, index: int) -> Any:
            if self.check_event(AliasEvent):
                self.repeated += 1
                if self.repeated > MAX_REPEATED:
                    raise YAMLError(f"more than {MAX_REPEATED} aliases (*)")
            return super().compose_node(parent, index)

    return Loader


def load_yaml(text: str | bytes, loader: Any, what: str, name: str | Path) -> Any:
    """Return the value of a YAML text.

    Args:
        text: YAML text.
        loader: Loader class, see `bounded_loader`.
        what: Noun for error messages.
        name: Name of the text for error messages.

    Raises:
        SettingsError: The text is invalid.
    """
    import yaml

    try:
        return yaml.load(text, loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise SettingsError(f"{what} {str(name)!r} is not valid YAML ({reason}).") from error
