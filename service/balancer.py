"""nginx as a load balancer for several image services: its configuration, or a folder to run it from.

Each setting prevents a way in which such configurations fail:

- least_conn: images take seconds and differ in duration, so round robin does not balance.
- HTTP/1.1 and an empty Connection header: before nginx 1.29, `keepalive` has no effect without both.
- proxy_next_upstream lists http_503 and non_idempotent: otherwise a POST is never sent to another service.
  The same request gives the same image, so sending it to another service is safe.
- max_fails=0: since http_503 is listed, a full queue would otherwise count as a failure and remove a healthy
  service for `fail_timeout`, under load all of them at once. A service that is down refuses connections at
  once, and the next one is used.
- Bodies are buffered completely before they are forwarded (nginx's default, set explicitly because the line
  above depends on it).

nginx's own folders (/etc/nginx, /run, /var/lib, /var/log) belong to root. In the folder that is written here,
every path is relative to it, so any user can run it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ..backend.core.errors import SettingsError
from ..backend.core.files.atomic import write_text
from ..backend.core.files.bounded_reader import read_text

SERVER_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}")
UPSTREAM = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:[0-9]{1,5})?")


@dataclass(frozen=True)
class Balancer:
    """An nginx configuration.

    Attributes:
        listen: PORT or ADDRESS:PORT.
        server_name: Host name of the server, or empty.
        body_mib: Maximum size of a request body.
        read_seconds: Maximum duration of a request, including its wait in the queue.
        whole: Whether to write a complete file for `nginx -c`, or one to include in an http block.
    """

    listen: str = "127.0.0.1:8080"
    server_name: str = ""
    body_mib: int = 64
    read_seconds: int = 900
    whole: bool = False

    def configuration(self, urls: Sequence[str]) -> str:
        """Return the configuration file for these services.

        Raises:
            SettingsError: The services do not fit into one upstream, or a name is invalid.
        """
        http = self._http(urls)
        return _main_file(http) if self.whole else http

    def user_level(self, urls: Sequence[str]) -> str:
        """Return a complete file that needs no rights outside of its folder, to which its paths are relative.

        Raises:
            SettingsError: As for `configuration`.
        """
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        paths = "".join(f"{kind}_temp_path {TEMPORARY}/{kind};\n" for kind in kinds)
        return USER_LEVEL + _main_file(f"access_log off;\n{paths}\n{self._http(urls)}")

    def _http(self, urls: Sequence[str]) -> str:
        scheme, hosts = self._upstreams(urls)
        server = "\n".join(f"    server {host} max_fails=0;" for host in hosts)
        named = f"    server_name {self._server_name()};\n" if self.server_name else ""
        tls = "        proxy_ssl_server_name on;\n" if scheme == "https" else ""
        return TEMPLATE.format(
            server=server,
            listen=self._listen(),
            named=named,
            body=self.body_mib,
            scheme=scheme,
            tls=tls,
            read=self.read_seconds,
            tries=min(len(hosts), 5),
            keepalive=max(32, 2 * len(hosts)),
        )

    def _listen(self) -> str:
        if not re.fullmatch(r"((\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z.-]+|\*):)?[0-9]{1,5}", self.listen):
            raise SettingsError(
                f"{self.listen!r} is not PORT or ADDRESS:PORT.", "For example: 127.0.0.1:8080."
            )
        return self.listen

    def _server_name(self) -> str:
        if not SERVER_NAME.fullmatch(self.server_name):
            raise SettingsError(f"{self.server_name!r} is not a valid host name.")
        return self.server_name

    def _upstreams(self, urls: Sequence[str]) -> tuple[str, list[str]]:
        if not urls:
            raise SettingsError("No services are given.", "Give URLs, or @FILE with one address per line.")
        schemes, hosts = set(), []
        for url in urls:
            parts = urlsplit(url)
            if not UPSTREAM.fullmatch(parts.netloc) or parts.path not in ("", "/"):
                raise SettingsError(f"{url[:200]!r} must consist of scheme, host and port only.")
            port = "" if parts.port else {"http": ":80", "https": ":443"}[parts.scheme]
            schemes.add(parts.scheme)
            hosts.append(parts.netloc + port)
        if len(schemes) > 1:
            raise SettingsError("The services mix http and https; an upstream needs one of them.")
        return schemes.pop(), list(dict.fromkeys(hosts))


def _main_file(http: str) -> str:
    """Return a main configuration file with these lines in its http block."""
    inside = "".join(f"    {line}\n" if line else "\n" for line in http.splitlines())
    return f"events {{ worker_connections 4096; }}\nhttp {{\n{inside}}}\n"


TEMPORARY = "temporary"
"""Folder for nginx's temporary files, relative to the folder of the configuration."""
USER_LEVEL = """\
# Written by `interleave-thinker serve nginx`. Paths are relative to this folder.
worker_processes auto;
pid nginx.pid;
error_log error.log warn;
"""
TEMPLATE = """\
upstream interleave_thinker {{
    least_conn;
{server}
    keepalive {keepalive};
}}

server {{
    listen {listen};
{named}
    # Images come as base64 in JSON.
    client_max_body_size {body}m;
    client_body_timeout 30s;

    location = /nginx-health {{
        access_log off;
        default_type text/plain;
        return 200 "ok\\n";
    }}

    location / {{
        proxy_pass {scheme}://interleave_thinker;
{tls}        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $http_host;
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_set_header X-Forwarded-Proto $scheme;

        # A whole body can be given to another service.
        proxy_request_buffering on;
        proxy_next_upstream error timeout http_503 non_idempotent;
        proxy_next_upstream_tries {tries};
        proxy_next_upstream_timeout {read}s;

        proxy_connect_timeout 3s;
        proxy_send_timeout 60s;
        proxy_read_timeout {read}s;
        proxy_buffer_size 16k;
        proxy_buffers 32 64k;
        proxy_busy_buffers_size 128k;
    }}
}}
"""


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
