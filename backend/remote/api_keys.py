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
"""The image services, with commas between them, that a workflow may name and that may see GENERATOR_KEY."""
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
            "and give that name here (capital letters, ending in _KEY or _TOKEN).",
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


def check_services(urls: str) -> str:
    """The addresses of services that a workflow names, several with commas between them. Raises
    SettingsError for what is no address, and for one that the owner of this machine did not allow: where
    GENERATOR_URL is set or GENERATOR_KEY holds a key, only the services that GENERATOR_URL names and those
    of this machine are."""
    allowed = environment.variable(GENERATOR_URL).replace(",", " ").split()
    given = [url.strip() for url in urls.split(",")]
    for url in given:
        _check_service(url, allowed)
    return ",".join(given)


def _check_service(url: str, allowed: list[str]) -> None:
    hint = "Give http://HOST:PORT or https://HOST, several with commas between them."
    try:
        asked, trusted = _origin(url), [_origin(one) for one in allowed]
    except ValueError as error:
        raise SettingsError(f"{url[:200]!r} is not a URL ({error}).", hint) from error
    if asked[0] not in ("http", "https") or not asked[1]:
        raise SettingsError(f"{url[:200]!r} is not the URL of a service.", hint)
    guarded = environment.variable(GENERATOR_KEY) or allowed
    if not guarded or asked[1] in THIS_MACHINE or asked in trusted:
        return
    fault = (
        f"{GENERATOR_KEY} holds a key, but it is not said that it is for {asked[1]}."
        if environment.variable(GENERATOR_KEY)
        else f"{asked[1]} is none of the services that {GENERATOR_URL} allows."
    )
    named = ",".join([*allowed, f"{asked[0]}://{urlsplit(url).netloc}"])
    raise SettingsError(fault, f"If you trust that service, start ComfyUI with {GENERATOR_URL}={named}.")


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", parts.port or default
