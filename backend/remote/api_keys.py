"""Reads API keys, and decides which key may be sent to which server when an untrusted file names both.

A shared workflow names a server and a variable, never a key. Since the server may belong to anyone, a key is
sent only where its owner allows it. The owner decides through the environment, which a workflow cannot
change: `NAME_HOSTS` lists the hosts that may receive the key in `NAME`. Hosts of well-known services are
built in. The local machine may receive any key.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from ..errors import SettingsError
from ..machine import environment
from .server import THIS_MACHINE

DEFAULT_VARIABLE = "INTERLEAVE_API_KEY"
GENERATOR_KEY = "INTERLEAVE_GENERATOR_KEY"
GEMINI_KEY = "GEMINI_API_KEY"
"""The variable that Google's own clients read."""
GENERATOR_URL = "INTERLEAVE_GENERATOR_URL"
"""Image services, separated by commas, that a workflow may use and that may receive GENERATOR_KEY."""
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,58}_(KEY|TOKEN)")
SERVICES = {
    "OPENAI_API_KEY": ("api.openai.com",),
    "OPENROUTER_API_KEY": ("openrouter.ai",),
    GEMINI_KEY: ("generativelanguage.googleapis.com",),
    "DASHSCOPE_API_KEY": ("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com"),
}


def check_variable(variable: str) -> None:
    """Check that a text is the name of a variable for keys. The error does not repeat it, as it may be a key.

    Raises:
        SettingsError: It is not.
    """
    if variable and not VARIABLE.fullmatch(variable):
        raise SettingsError(
            "This is not the name of an environment variable for a key, and may be a key itself.",
            f"Do not put keys into a workflow: set the environment variable {DEFAULT_VARIABLE} to the key, "
            "and enter that name here (uppercase, ending in _KEY or _TOKEN).",
        )


def read_key(*variables: str) -> str | None:
    """Return the key in the first of these environment variables that is set, or None.

    For servers that the user of this machine has named.

    Raises:
        SettingsError: The value cannot be a key.
    """
    for variable in variables:
        key = environment.variable(variable)
        if key and not re.fullmatch(r"[!-~]+", key):
            raise SettingsError(
                f"{variable} contains characters that are not allowed in a key.", "Set it to the key only."
            )
        if key:
            return key
    return None


def key_for(variable: str, url: str) -> str | None:
    """Return the key in an environment variable for a server that may receive it, or None if it is not set.

    Raises:
        SettingsError: The variable is set, but its owner has not allowed this server's host.
    """
    check_variable(variable)
    key = read_key(variable) if variable else None
    if key is None:
        return None
    host = (urlsplit(url).hostname or "").lower()
    named = environment.variable(f"{variable}_HOSTS").lower().replace(",", " ").split()
    if host not in (*THIS_MACHINE, *SERVICES.get(variable, ()), *named):
        raise SettingsError(
            f"The key in {variable} is not allowed to be sent to {host}.",
            f"If the key is for that server, set the environment variable {variable}_HOSTS to {host}.",
        )
    return key


def check_services(urls: str, gets_key: bool = True) -> str:
    """Check the addresses of services that a workflow names, separated by commas.

    If GENERATOR_URL or GENERATOR_KEY is set, only the services in GENERATOR_URL and those of this machine are
    allowed.

    Args:
        urls: The addresses.
        gets_key: Whether they receive GENERATOR_KEY. If not, only GENERATOR_URL matters.

    Returns:
        The addresses.

    Raises:
        SettingsError: An address is invalid, or the owner of this machine does not allow it.
    """
    allowed = environment.variable(GENERATOR_URL).replace(",", " ").split()
    given = [url.strip() for url in urls.split(",")]
    for url in given:
        _check_service(url, allowed, gets_key)
    return ",".join(given)


def _check_service(url: str, allowed: list[str], gets_key: bool) -> None:
    hint = "Use http://HOST:PORT or https://HOST; separate several with commas."
    try:
        asked, trusted = _origin(url), [_origin(one) for one in allowed]
    except ValueError as error:
        raise SettingsError(f"{url[:200]!r} is not a valid URL ({error}).", hint) from error
    if asked[0] not in ("http", "https") or not asked[1]:
        raise SettingsError(f"{url[:200]!r} is not a valid URL of a service.", hint)
    key = environment.variable(GENERATOR_KEY) if gets_key else ""
    if not (key or allowed) or asked[1] in THIS_MACHINE or asked in trusted:
        return
    fault = (
        f"{GENERATOR_KEY} contains a key that is not allowed to be sent to {asked[1]}."
        if key
        else f"{asked[1]} is not one of the services that {GENERATOR_URL} allows."
    )
    named = ",".join([*allowed, f"{asked[0]}://{urlsplit(url).netloc}"])
    raise SettingsError(fault, f"If you trust that service, start ComfyUI with {GENERATOR_URL}={named}.")


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", parts.port or default
