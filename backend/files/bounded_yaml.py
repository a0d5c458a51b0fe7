"""YAML of strangers, loaded with few repeated parts: some lines of repeated repetitions are gigabytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import SettingsError

MAX_REPEATED = 8


def bounded_loader(base: Any) -> Any:
    """A loader class like `base` (yaml.SafeLoader, yaml.BaseLoader) that raises yaml.YAMLError where more
    than MAX_REPEATED parts are repeated by `*`."""
    from yaml import AliasEvent, YAMLError

    class Loader(base):
        repeated = 0

        def compose_node(self, parent: Any, index: int) -> Any:
            if self.check_event(AliasEvent):
                self.repeated += 1
                if self.repeated > MAX_REPEATED:
                    raise YAMLError(f"it repeats parts (*) more than {MAX_REPEATED} times")
            return super().compose_node(parent, index)

    return Loader


def load_yaml(text: str | bytes, loader: Any, what: str, name: str | Path) -> Any:
    """What a YAML text holds; raises SettingsError, which calls it `what` and by its name."""
    import yaml

    try:
        return yaml.load(text, loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise SettingsError(f"{what} {str(name)!r} is not YAML that can be read ({reason}).") from error
