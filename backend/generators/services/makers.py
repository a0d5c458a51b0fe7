"""Who draws behind a list of services: what they say of their models, held against each other.

Decision: a service that gives its `identity` (ours do: weights and settings by their digests) is known by it
wherever it runs, so that its images are the same maker's on one machine or ten. One that gives only a name is
known by that and by its address, and one that gives nothing by its address alone. Services that say different
things are an error, unless whoever lists them says that they may be mixed; then all of them are named.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ...errors import GeneratorError, SettingsError


@dataclass(frozen=True)
class Maker:
    """What a service says of its model: by an `identity` (`exact`) or by some name, which may be empty."""

    name: str
    exact: bool = False


class Makers:
    """The makers of a list by address. `mixed`: they may differ."""

    def __init__(self, mixed: bool) -> None:
        self._mixed = mixed
        self._found: dict[str, Maker] = {}
        self._agreed: set[Maker] | None = None
        self._lock = threading.Lock()

    def add(self, url: str, maker: Maker) -> None:
        """Note what the service at `url` says; raises GeneratorError if the list was opened without such a
        maker."""
        with self._lock:
            if self._agreed is not None and maker not in self._agreed:
                known = ", ".join(sorted(repr(one.name) for one in self._agreed))
                raise GeneratorError(
                    f"{url} now holds another model ({maker.name!r}) than the services that this run began "
                    f"with ({known}).",
                    "Start it with the model of the others.",
                )
            self._found[url] = maker

    def check(self) -> None:
        """End the opening; raises SettingsError if services differ that may not."""
        with self._lock:
            found = set(self._found.values())
            if len(found) > 1 and not self._mixed:
                said = "; ".join(f"{url}: {one.name!r}" for url, one in sorted(self._found.items()))
                raise SettingsError(
                    f"The services hold different models ({said[:1000]}).",
                    "Name services of one model, or set mixed if an image may come from any of them.",
                )
            self._agreed = found

    def named(self, urls: tuple[str, ...]) -> str:
        """The part of an identity that says who draws, for the list of these addresses."""
        found = sorted(set(self._found.values()), key=lambda one: (one.name, one.exact))
        exact = [f"model={one.name!r}" for one in found if one.exact]
        if len(exact) == len(found):
            return " ".join(exact)
        loose = ",".join(sorted(url for url in urls if not self._is_exact(url)))
        return " ".join([loose, *(f"model={one.name!r}" for one in found if one.name)])

    def _is_exact(self, url: str) -> bool:
        return url in self._found and self._found[url].exact
