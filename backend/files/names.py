"""Names that are valid for files on every system.

A story made on Linux may be copied to Windows, and a workflow names folders on both. An invalid name is
rejected with a reason and never changed, because two names changed into one would overwrite each other.
"""

from __future__ import annotations

import re
import unicodedata

RESERVED = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9\u00b9\u00b2\u00b3]) *(\.|$)", re.IGNORECASE
)
"""Device names of Windows, also with an extension: aux.png is the serial port."""
NOWHERE = re.compile(r"[\x00/\ud800-\udfff]")
"""Characters that no system allows in a name."""
NOT_ON_WINDOWS = re.compile(r'[\x00-\x1f<>:"|?*\\]')
MAX_NAME_LENGTH = 255
"""Maximum length: bytes on Linux, UTF-16 units on Windows and macOS."""

SLUG_LETTERS, SLUG_BYTES = 40, 80


def slug(text: str) -> str:
    """Return the beginning of a text as part of a file name, or "" if no letter or digit is left.

    Letters and digits of any script keep their combining marks, and everything else becomes a hyphen. The
    result has at most SLUG_LETTERS characters and SLUG_BYTES bytes. It must be followed by something unique,
    such as a digest: different texts can have the same slug, and alone it can be a reserved name.
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
    """Return why a name is invalid, as the end of a sentence ("is ..."), or "" if it is valid.

    Args:
        name: Name of a file or folder.
        windows: Whether to apply the rules of Windows too.
    """
    if name in ("", ".", ".."):
        return "is empty or only dots"
    if NOWHERE.search(name):
        return "contains a character that file names cannot have"
    if len(name.encode()) > MAX_NAME_LENGTH:
        return f"is longer than {MAX_NAME_LENGTH} bytes"
    if not windows:
        return ""
    if NOT_ON_WINDOWS.search(name):
        return 'contains one of < > : " | ? * \\ or a control character, which Windows does not allow'
    if name[-1] in ". ":
        return "ends with a dot or a space, which Windows removes"
    if RESERVED.match(name):
        return "is a device name on Windows"
    return ""
