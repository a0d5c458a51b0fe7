"""API keys: reading them, deciding which server may receive one, and removing them from what servers send.

A shared workflow names a server and a variable, never a key. Since the server may belong to anyone, a key is
sent only where its owner allows it. The owner decides through the environment, which a workflow cannot
change: `NAME_HOSTS` lists the hosts that may receive the key in `NAME`. Hosts of well-known services are
built in. The local machine may receive any key.

What a server sends ends up in errors, records, pages and the identity of a run, and servers echo what they
receive: complete headers, the beginning of a wrong key, a key in base64 or URL-encoded. Every sequence of
eight characters of the key, in any of these forms, is therefore removed from a server's text before anything
else sees it. This protects against careless servers. A malicious server has the key already. Keys of fewer
than six characters are placeholders, such as "none", and are not masked.
"""

from __future__ import annotations

import base64
import re
from urllib.parse import urlsplit

from ..errors import SettingsError
from ..machine import environment
from .addresses import THIS_MACHINE

MARK = "(key)"
MIN_KEY = 6
WINDOW = 8
"""Length of the sequences of a key, or of one of its forms, that are removed."""
MAX_HELD_BACK = 4096
ESCAPE = re.compile(
    r"%([0-9a-f]{2})|\\u00([0-9a-f]{2})|\\x([0-9a-f]{2})|&#x0{0,4}([0-9a-f]{1,2});|&#0{0,4}([0-9]{1,3});|\\(/)",
    re.IGNORECASE,
)
ESCAPE_BEGUN = re.compile(
    r"(?:%[0-9a-f]?|\\u?[0-9a-f]{0,3}|\\x[0-9a-f]?|&#?x?[0-9a-f]{0,6})\Z", re.IGNORECASE
)
LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
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


class KeyMask:
    """Replaces a key by `(key)`. Without a key, or with one shorter than MIN_KEY, texts are unchanged."""

    def __init__(self, key: str | None) -> None:
        secret = key if key and len(key) >= MIN_KEY else ""
        self._windows = {part for form in _forms(secret) for part in _windows(form.translate(LOWER))}
        self._sizes = sorted({len(part) for part in self._windows})
        self._beginnings = {part[:size] for part in self._windows for size in range(1, len(part))}

    def __repr__(self) -> str:
        return "KeyMask(...)"

    def __call__(self, text: str) -> str:
        """Return the text without the key."""
        return self._masked(text, self._found(text)) if self._windows else text

    def settled(self, text: str) -> tuple[str, str]:
        """Split an incomplete text into a part that can be shown, without the key, and a rest.

        A key may begin in the rest.
        """
        if not self._windows:
            return text, ""
        begun = ESCAPE_BEGUN.search(text)
        whole = begun.start() if begun else len(text)
        places, plain = _plain(text[:whole])
        cut = whole
        longest = self._sizes[-1] - 1
        for index in range(max(0, len(plain) - longest), len(plain)):
            if plain[index:] in self._beginnings:
                cut = places[index]
                break
        for start, end in self._found(text[:whole]):
            if start < cut <= end:
                cut = start
        if len(text) - cut > MAX_HELD_BACK:
            cut = len(text) - 2 * WINDOW
        return self._masked(text[:cut], self._found(text[:cut])), text[cut:]

    def _found(self, text: str) -> list[tuple[int, int]]:
        """Return the positions of the key, as start and end, in order."""
        places, plain = _plain(text)
        found: list[tuple[int, int]] = []
        for size in self._sizes:
            for index in range(len(plain) - size + 1):
                if plain[index : index + size] in self._windows:
                    found.append((places[index], places[index + size]))
        merged: list[tuple[int, int]] = []
        for start, end in sorted(found):
            if merged and start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        return merged

    def _masked(self, text: str, found: list[tuple[int, int]]) -> str:
        parts, last = [], 0
        for start, end in found:
            parts += [text[last:start], MARK]
            last = end
        return "".join([*parts, text[last:]])


class GrowingMask:
    """Masks a text that arrives in pieces. A piece is returned once no key can begin in it."""

    def __init__(self, mask: KeyMask) -> None:
        self._mask = mask
        self._rest = ""

    def add(self, piece: str) -> str:
        """Add a piece and return the text that can be shown now, which may be empty."""
        given, self._rest = self._mask.settled(self._rest + piece)
        return given

    def end(self) -> str:
        """Return the rest of the text at its end."""
        rest, self._rest = self._rest, ""
        return self._mask(rest)


def _forms(key: str) -> list[str]:
    """Return the key as is, in hexadecimal, and in base64 at each of the three alignments."""
    if not key:
        return []
    content = key.encode("utf-8", "surrogateescape")
    forms = [key, content.hex()]
    for offset, skipped in ((0, 0), (1, 2), (2, 3)):
        whole = base64.b64encode(b"\0" * offset + content).decode("ascii").rstrip("=")
        # The last character also depends on what follows the key, unless the bytes of the key end there.
        core = whole[skipped:] if (offset + len(content)) % 3 == 0 else whole[skipped:-1]
        forms += [core, core.replace("+", "-").replace("/", "_")]
    return forms


def _windows(form: str) -> list[str]:
    size = min(WINDOW, len(form))
    return [form[index : index + size] for index in range(len(form) - size + 1)] if size >= MIN_KEY else []


def _plain(text: str) -> tuple[list[int] | range, str]:
    """Return the text in lowercase with escapes decoded, and the position of each character in the original.

    The positions include the end of the text.
    """
    if "%" not in text and "\\" not in text and "&#" not in text:
        return range(len(text) + 1), text.translate(LOWER)
    places: list[int] = []
    parts: list[str] = []
    last = 0
    for match in ESCAPE.finditer(text):
        *hexadecimal, decimal, slash = match.groups()
        code = next((part for part in hexadecimal if part), None)
        number = int(code, 16) if code else int(decimal) if decimal else ord(slash)
        places += [*range(last, match.start()), match.start()]
        parts += [text[last : match.start()], chr(number)]
        last = match.end()
    places += range(last, len(text) + 1)
    return places, "".join([*parts, text[last:]]).translate(LOWER)


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
