"""A folder with which any user can run nginx as a load balancer: configuration, scripts, temporary files.

nginx's own defaults (/etc/nginx, /run, /var/lib, /var/log) belong to root. Here every path is in the folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...backend.errors import SettingsError
from ...backend.files.atomic import write_text
from ...backend.files.bounded_reader import read_text
from .balancer import TEMPORARY, USER_LEVEL, Balancer

CONFIGURATION, START, STOP = "nginx.conf", "start.sh", "stop.sh"
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
        SettingsError: The services do not fit into one upstream, the folder has another nginx configuration,
            or it cannot be written.
    """
    text = balancer.user_level(urls)
    place = folder / CONFIGURATION
    if place.exists():
        before = read_text(place, MAX_CONFIGURATION, SettingsError, "Configuration")
        if before.partition("\n")[0] != USER_LEVEL.partition("\n")[0]:
            raise SettingsError(
                f"{str(place)!r} is another nginx configuration.",
                "Choose another folder, or delete the file.",
            )
    for name, content in {CONFIGURATION: text, START: START_SCRIPT, STOP: STOP_SCRIPT}.items():
        write_text(folder / name, content, SettingsError, "File")
    for name in (START, STOP):
        (folder / name).chmod(0o755)


FIND_NGINX = f"""\
#!/bin/sh
# Written by `interleave-thinker serve nginx`.
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
    [ -s nginx.pid ] && kill -0 "$(cat nginx.pid)" 2>/dev/null
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
