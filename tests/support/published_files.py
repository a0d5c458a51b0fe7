"""The archive for the Comfy Registry: the repository's files without those in .comfyignore.

It is built like comfy-cli does (files known to git, patterns as in .gitignore, deflated), so that a test
needs neither comfy-cli nor a network.
"""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def repository() -> set[str]:
    """Return every file that is or will be committed; skips the test without a git checkout."""
    return _listed("--exclude-standard")


def published() -> set[str]:
    """Return the files of the archive."""
    return repository() - _listed("--ignored", f"--exclude-from={ROOT / '.comfyignore'}")


def write_archive(path: Path) -> None:
    """Write the archive to `path`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(published()):
            archive.write(ROOT / name, name)


def _listed(*options: str) -> set[str]:
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("Only a git checkout lists the published files.")
    return {name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()}
