"""To whom the key of an image service may be sent.

Decision: the URL stands in the workflow, and workflows come from strangers. The key in the environment is
therefore sent to this machine, or to the service that the environment names beside it, and to nobody else.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from ...backend.errors import SettingsError
from ...backend.remote.api_keys import KEY_VARIABLE
from ...backend.remote.server import THIS_MACHINE

URL_VARIABLE = "INTERLEAVE_GENERATOR_URL"


def check_service(url: str) -> str:
    """The URL as a specification for `open_generator`; raises SettingsError where the key would go to a
    stranger."""
    url = url.strip()
    try:
        asked, trusted = _origin(url), _origin(os.environ.get(URL_VARIABLE, ""))
    except ValueError as error:
        raise SettingsError(
            f"{url[:200]!r} is not a URL ({error}).", "Give http://HOST:PORT or https://HOST."
        ) from error
    if asked[0] not in ("http", "https") or not asked[1]:
        raise SettingsError(
            f"{url[:200]!r} is not the URL of a service.", "Give http://HOST:PORT or https://HOST."
        )
    if os.environ.get(KEY_VARIABLE) and asked[1] not in THIS_MACHINE and asked != trusted:
        raise SettingsError(
            f"{KEY_VARIABLE} holds a key, but it is not said that it is for {asked[1]}.",
            (
                f"If you trust that service, start ComfyUI with "
                f"{URL_VARIABLE}={asked[0]}://{urlsplit(url).netloc}."
            ),
        )
    return url


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", parts.port or default
