"""Names that every system can give a file: a story made on Linux is copied to Windows, and a workflow names
folders on both.

Decision: a name is refused with its reason, never changed: two names that are changed into one would
overwrite each other.
"""

from __future__ import annotations

import re
import unicodedata

RESERVED = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9\u00b9\u00b2\u00b3]) *(\.|$)", re.IGNORECASE
)
"""Devices of Windows, also with an ending: aux.png is the serial port."""
NOWHERE = re.compile(r"[\x00/\ud800-\udfff]")
"""Signs that no system takes in a name."""
NOT_ON_WINDOWS = re.compile(r'[\x00-\x1f<>:"|?*\\]')
MAX_NAME_LENGTH = 255
"""Bytes of a name on Linux, UTF-16 units on Windows and macOS: no more of either."""

SLUG_LETTERS, SLUG_BYTES = 40, 80


def slug(text: str) -> str:
    """Return the beginning of a text as part of a file name, "" if no letter or digit is left.

    Letters and digits of any script stay with their marks, and everything else becomes a hyphen. The result
    has at most SLUG_LETTERS characters and SLUG_BYTES bytes. Something unique must follow it, such as a
    digest: different texts can have the same slug, and alone it can be a reserved name.
    """
    plain = unicodedata.normalize("NFC", text.lower())
    kept = [""]
    for sign in plain:
        kind = unicodedata.category(sign)[0]
        is_kept = kind in "LN" or (kind == "M" and kept[-1] not in ("", "-"))
        kept.append(sign if is_kept else "-")
    short = re.sub("-+", "-", "".join(kept))[:SLUG_LETTERS]
    return short.encode()[:SLUG_BYTES].decode(errors="ignore").strip("-")


def name_fault(name: str, windows: bool = True) -> str:
    """Why a file or folder cannot have this name, as the end of a sentence ("is ..."); "" if it can.

    `windows` False asks only for what no system takes.
    """
    if name in ("", ".", ".."):
        return "is empty or only dots"
    if NOWHERE.search(name):
        return "has a sign that no file name may have"
    if len(name.encode()) > MAX_NAME_LENGTH:
        return f"is longer than {MAX_NAME_LENGTH} bytes"
    if not windows:
        return ""
    if NOT_ON_WINDOWS.search(name):
        return 'has one of < > : " | ? * \\ or a control sign, which Windows refuses'
    if name[-1] in ". ":
        return "ends with a dot or a space, which Windows leaves out"
    if RESERVED.match(name):
        return "is that of a device on Windows"
    return ""
