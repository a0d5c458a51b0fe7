"""Where keys are read, and which key may be sent to which server when both are named by a file that may come
from a stranger.

Decision: a shared workflow names a server and a variable, never a key; and since the server may be anybody's,
a key is sent only where the person who owns it said so. The owner speaks through the environment, which a
workflow cannot change: the hosts that may see `NAME` stand in `NAME_HOSTS`. The hosts of well-known services
are known; this machine may see any.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from ..errors import SettingsError
from ..machine import environment
from .server import THIS_MACHINE

DEFAULT_VARIABLE = "INTERLEAVE_API_KEY"
GENERATOR_KEY = "INTERLEAVE_GENERATOR_KEY"
GENERATOR_URL = "INTERLEAVE_GENERATOR_URL"
"""The image service that may see GENERATOR_KEY."""
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,58}_(KEY|TOKEN)")
SERVICES = {
    "OPENAI_API_KEY": ("api.openai.com",),
    "OPENROUTER_API_KEY": ("openrouter.ai",),
    "DASHSCOPE_API_KEY": ("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com"),
}


def check_variable(variable: str) -> None:
    """Raise SettingsError unless this is the name of a variable for keys; what it is instead is not
    repeated."""
    if variable and not VARIABLE.fullmatch(variable):
        raise SettingsError(
            "That is not the name of an environment variable for a key, and may be a key itself.",
            f"A key must not stand in a workflow: put it into the environment variable {DEFAULT_VARIABLE}, "
            "and give "
            "that name here (capital letters, ending in _KEY or _TOKEN).",
        )


def read_key(*variables: str) -> str | None:
    """The key in the first of these environment variables that is set; raises SettingsError if it cannot be a
    key. For servers that the user of this machine has named."""
    for variable in variables:
        key = environment.variable(variable)
        if key and not re.fullmatch(r"[!-~]+", key):
            raise SettingsError(f"{variable} holds characters that no key has.", "Set it to the key alone.")
        if key:
            return key
    return None


def key_for(variable: str, url: str) -> str | None:
    """The key in an environment variable, for a server that may see it; None if the variable is not set or
    not named.

    Raises SettingsError if the variable is set but its owner has not named this server's host.
    """
    check_variable(variable)
    key = read_key(variable) if variable else None
    if key is None:
        return None
    host = (urlsplit(url).hostname or "").lower()
    named = environment.variable(f"{variable}_HOSTS").lower().replace(",", " ").split()
    if host not in (*THIS_MACHINE, *SERVICES.get(variable, ()), *named):
        raise SettingsError(
            f"The key in {variable} may not be sent to {host}.",
            f"If it is meant for that server, set the environment variable {variable}_HOSTS to {host}.",
        )
    return key


def check_service(url: str) -> str:
    """The URL of an image service that a workflow names; raises SettingsError where the key of
    GENERATOR_KEY would go to a service that GENERATOR_URL does not name."""
    url = url.strip()
    try:
        asked, trusted = _origin(url), _origin(environment.variable(GENERATOR_URL))
    except ValueError as error:
        raise SettingsError(
            f"{url[:200]!r} is not a URL ({error}).", "Give http://HOST:PORT or https://HOST."
        ) from error
    if asked[0] not in ("http", "https") or not asked[1]:
        raise SettingsError(
            f"{url[:200]!r} is not the URL of a service.", "Give http://HOST:PORT or https://HOST."
        )
    if environment.variable(GENERATOR_KEY) and asked[1] not in THIS_MACHINE and asked != trusted:
        raise SettingsError(
            f"{GENERATOR_KEY} holds a key, but it is not said that it is for {asked[1]}.",
            (
                "If you trust that service, start ComfyUI with "
                f"{GENERATOR_URL}={asked[0]}://{urlsplit(url).netloc}."
            ),
        )
    return url


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", parts.port or default
