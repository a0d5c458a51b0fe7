"""A folder with which any user can run nginx as a load balancer: configuration, scripts, temporary files.

nginx's own defaults (/etc/nginx, /run, /var/lib, /var/log) belong to root. Here every path is in the folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...backend.errors import SettingsError
from ...backend.files.atomic import write_text
from ...backend.files.bounded_reader import read_text
from .balancer import TEMPORARY, Balancer

CONFIGURATION, START, STOP = "nginx.conf", "start.sh", "stop.sh"
WRITTEN = "# Written by `interleave-thinker serve nginx`."
"""Start of the first or second line of every file."""
MAX_CONFIGURATION = 1024 * 1024
QUIT_SECONDS = 600
"""Time limit for requests in progress when nginx is stopped. An image may take minutes."""


def write_folder(folder: Path, balancer: Balancer, urls: Sequence[str]) -> None:
    """Write the folder, or update it for other services or options.

    Args:
        folder: The folder. It is created if necessary.
        balancer: Options of the load balancer.
        urls: The services.

    Raises:
        SettingsError: The services do not fit into one upstream, a file in the folder is another one, or it
            cannot be written.
    """
    files = {CONFIGURATION: balancer.user_level(urls), START: START_SCRIPT, STOP: STOP_SCRIPT}
    for name in files:
        _check_own(folder / name)
    for name, content in files.items():
        write_text(folder / name, content, SettingsError, "File")
    for name in (START, STOP):
        (folder / name).chmod(0o755)


def _check_own(path: Path) -> None:
    """Check that a file does not exist, or that this module wrote it.

    Raises:
        SettingsError: It is another file.
    """
    if not path.exists():
        return
    before = read_text(path, MAX_CONFIGURATION, SettingsError, "File")
    if not any(line.startswith(WRITTEN) for line in before.splitlines()[:2]):
        raise SettingsError(
            f"{str(path)!r} was not written by `serve nginx`.", "Choose another folder, or delete the file."
        )


FIND_NGINX = f"""\
#!/bin/sh
{WRITTEN}
set -eu
cd "$(dirname "$0")"
PATH="$PATH:/usr/sbin:/usr/local/sbin"
NGINX="${{NGINX:-nginx}}"
if ! command -v "$NGINX" >/dev/null; then
    echo "nginx was not found. Install it, or set NGINX to its path." >&2
    exit 1
fi
own_nginx() {{
    # The workers of a server that root starts could not read the folder as another user.
    if [ "$(id -u)" -eq 0 ]; then set -- -g "user root;" "$@"; fi
    "$NGINX" -p "$PWD" -c "$PWD/{CONFIGURATION}" -e error.log "$@"
}}
is_running() {{
    [ -s nginx.pid ] && kill -0 "$(cat nginx.pid 2>/dev/null)" 2>/dev/null
}}
"""
START_SCRIPT = f"""{FIND_NGINX}
mkdir -p {TEMPORARY}
# A worker needs two open files per connection.
ulimit -S -n "$(ulimit -H -n)" 2>/dev/null || true
own_nginx -t -q
if is_running; then
    own_nginx -s reload
    echo "nginx reads its configuration again."
else
    own_nginx
    echo "nginx runs. Stop it with {STOP}."
fi
"""
STOP_SCRIPT = f"""{FIND_NGINX}
if ! is_running; then
    echo "nginx does not run."
    exit 0
fi
# Requests in progress are finished first, for up to {QUIT_SECONDS} seconds.
own_nginx -s quit
seconds=0
while is_running && [ "$seconds" -lt {QUIT_SECONDS} ]; do
    sleep 1
    seconds=$((seconds + 1))
done
if is_running; then
    own_nginx -s stop
    echo "nginx was stopped with requests in progress." >&2
    exit 1
fi
echo "nginx has stopped."
"""
