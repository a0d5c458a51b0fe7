"""The models behind a list of services, compared with each other.

A service that reports an `identity` (those of this package do: weights and settings by digest) is recognized
by it on any machine, so its images have the same identity on one machine or ten. A service that reports only
a name is identified by the name and its address, and one that reports nothing by its address. Services that
report different models are an error, unless the user allows a mixed list. Then the identity contains all of
them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ...errors import GeneratorError, SettingsError


@dataclass(frozen=True)
class Maker:
    """The model of a service: its `identity` (`exact`), or some name, which may be empty."""

    name: str
    exact: bool = False


class Makers:
    """The models of a list of services, by address. `mixed` allows different ones."""

    def __init__(self, mixed: bool) -> None:
        self._mixed = mixed
        self._found: dict[str, Maker] = {}
        self._agreed: set[Maker] | None = None
        self._lock = threading.Lock()

    def add(self, url: str, maker: Maker) -> None:
        """Record the model of the service at `url`.

        Raises:
            GeneratorError: No service had this model when the list was opened.
        """
        with self._lock:
            if self._agreed is not None and maker not in self._agreed:
                known = ", ".join(sorted(repr(one.name) for one in self._agreed))
                raise GeneratorError(
                    f"{url} now has another model ({maker.name!r}) than the services at the start of this "
                    "run "
                    f"({known}).",
                    "Restart it with the model of the others.",
                )
            self._found[url] = maker

    def check(self) -> None:
        """Finish opening the list.

        Raises:
            SettingsError: The services have different models and are not allowed to.
        """
        with self._lock:
            found = set(self._found.values())
            if len(found) > 1 and not self._mixed:
                said = "; ".join(f"{url}: {one.name!r}" for url, one in sorted(self._found.items()))
                raise SettingsError(
                    f"The services have different models ({said[:1000]}).",
                    "List services with one model, or set mixed if an image may come from any of them.",
                )
            self._agreed = found

    def named(self, urls: tuple[str, ...]) -> str:
        """Return the models' part of an identity, for a list of these addresses."""
        found = sorted(set(self._found.values()), key=lambda one: (one.name, one.exact))
        exact = [f"model={one.name!r}" for one in found if one.exact]
        if len(exact) == len(found):
            return " ".join(exact)
        loose = ",".join(sorted(url for url in urls if not self._is_exact(url)))
        return " ".join([loose, *(f"model={one.name!r}" for one in found if one.name)])

    def _is_exact(self, url: str) -> bool:
        return url in self._found and self._found[url].exact
