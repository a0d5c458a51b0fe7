"""Finds llama.cpp's server program, and asks it what it can do."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from shutil import which

from ...errors import ChatError, SettingsError
from ...machine.environment import for_a_child, variable

PROGRAM = "llama-server"
VARIABLE = "LLAMA_SERVER"
HOW_TO_GET = (
    "Install llama.cpp (a release of github.com/ggml-org/llama.cpp, `brew install llama.cpp` or "
    f"`winget install llama.cpp`), or name the program in the environment variable {VARIABLE}."
)
DEVICE = re.compile(r"^ +\w[^:]*: .+$", re.MULTILINE)
OWN_VARIABLES = "LLAMA_"
"""Prefix of the variables that override llama.cpp's command line, for example its address."""
LIST_SECONDS = 30.0


def find_server(named: str | None = None) -> str:
    """Return the path of the program: the given one, else the one in LLAMA_SERVER, else the one on the PATH.

    Raises:
        SettingsError: It was not found. The hint says how to install it.
    """
    given = named or variable(VARIABLE)
    found = which(str(Path(given).expanduser()) if given else PROGRAM)
    if found is None and given:
        raise SettingsError(f"{given!r} is not an executable program.", HOW_TO_GET)
    if found is None:
        raise SettingsError(f"Agents in GGUF need {PROGRAM}, which is not on the PATH.", HOW_TO_GET)
    return found


def has_cards(program: str) -> bool:
    """Return whether this build of the server finds a GPU that it can use.

    Raises:
        ChatError: The program does not start.
    """
    return bool(DEVICE.search(_printed(program, "--list-devices").partition("vailable devices:")[2]))


def has_shared_slots(program: str) -> bool:
    """Return whether this build of the server has slots that share one context (`SLOTS` in settings.py).

    Raises:
        ChatError: The program does not start.
    """
    return "--no-cache-idle-slots" in _printed(program, "--help")


def _printed(program: str, option: str) -> str:
    try:
        ended = subprocess.run(
            [program, option],
            capture_output=True,
            timeout=LIST_SECONDS,
            env=for_a_child(OWN_VARIABLES),
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ChatError(f"Cannot start {program!r} ({error}).", HOW_TO_GET) from error
    return ended.stdout.decode("utf-8", "replace")
