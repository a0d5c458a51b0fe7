"""Which key may be sent to which server, when both are named by a file that may come from a stranger.

Decision: a shared workflow names a server and a variable, never a key; and since the server may be anybody's,
a key is sent only where the person who owns it said so. The owner speaks through the environment, which a
workflow cannot change: the hosts that may see `NAME` stand in `NAME_HOSTS`. The hosts of well-known services
are known; this machine may see any.
"""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

from ..errors import SettingsError
from .server import THIS_MACHINE

DEFAULT_VARIABLE = "INTERLEAVE_API_KEY"
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
            f"and give "
            "that name here (capital letters, ending in _KEY or _TOKEN).",
        )


def key_for(variable: str, url: str) -> str | None:
    """The key in an environment variable, for a server that may see it; None if the variable is not set or
    not named.

    Raises SettingsError if the variable is set but its owner has not named this server's host.
    """
    check_variable(variable)
    key = os.environ.get(variable, "").strip() if variable else ""
    if not key:
        return None
    if not re.fullmatch(r"[!-~]+", key):
        raise SettingsError(f"{variable} holds characters that no key has.", "Set it to the key alone.")
    host = (urlsplit(url).hostname or "").lower()
    named = os.environ.get(f"{variable}_HOSTS", "").lower().replace(",", " ").split()
    if host not in (*THIS_MACHINE, *SERVICES.get(variable, ()), *named):
        raise SettingsError(
            f"The key in {variable} may not be sent to {host}.",
            f"If it is meant for that server, set the environment variable {variable}_HOSTS to {host}.",
        )
    return key


KEY_VARIABLE = "INTERLEAVE_GENERATOR_KEY"
