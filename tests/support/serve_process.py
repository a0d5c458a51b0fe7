"""The command `serve` as a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from .ray_here import importable
from .running_service import wait_until

CALL = "import sys; sys.argv[0] = 'interleave-thinker'; from interleave_thinker.cli import main; main()"


@contextmanager
def serving(
    folder: Path, *options: str, files: int | None = None
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Run the command; yield it and the addresses that it listens on.

    Args:
        folder: Folder for the log.
        options: Options of the command.
        files: Limit of open files.
    """

    def limit_files() -> None:
        if files is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    (folder / "package").mkdir()
    with importable(folder / "package"), (folder / "log").open("w") as log:
        command = [sys.executable, "-c", CALL, "serve", "--port", "0", *options]
        process = subprocess.Popen(command, stderr=log, text=True, cwd=folder, preexec_fn=limit_files)
        try:
            found = lambda: re.findall(r"Listening at (\S+)", (folder / "log").read_text())  # noqa: E731
            wait_until(lambda: found() or process.poll() is not None)
            assert found(), (folder / "log").read_text()
            yield process, found()
        finally:
            process.kill()
            process.wait()


def is_alive(url: str) -> bool:
    try:
        return httpx.get(f"{url}/ready").status_code == 200
    except httpx.TransportError:
        return False
