"""A folder that replaces an earlier one: whoever looks, and whoever is killed, finds the old one, the new one
or none.

Decision: the earlier folder is moved aside by one rename and deleted only when the new one is in its place.
Deleted where it lies, a kill in the middle would leave half of it, which the next reader takes for a folder
of its own kind or refuses.
"""

from __future__ import annotations

import shutil
from pathlib import Path


def put_in_place(part: Path, folder: Path) -> Path:
    """Make the finished folder `part` (beside it, on the same disk) `folder`, in place of one that may be
    there.

    Returns `folder`; raises OSError, and the earlier folder is then where it was.
    """
    aside = folder.with_name(f".{folder.name}.replaced")
    if folder.is_symlink() or folder.exists():
        _remove(aside)
        folder.replace(aside)
    try:
        part.replace(folder)
    except OSError:
        if aside.is_symlink() or aside.exists():
            aside.replace(folder)
        raise
    _remove(aside)
    return folder


def _remove(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)
