"""The configuration of nginx as a load balancer for several image services.

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

nginx's own folders (/etc/nginx, /run, /var/lib, /var/log) belong to root. In a whole file, every path is
relative to the folder with which nginx is started (`nginx -p FOLDER`), so any user can run it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from ..backend.core.errors import SettingsError

UPSTREAM = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:[0-9]{1,5})?")
LISTEN = re.compile(r"((\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z.-]+|\*):)?[0-9]{1,5}")


def configuration(urls: Sequence[str], listen: str = "127.0.0.1:8080", whole: bool = False) -> str:
    """Return the configuration file for these services.

    Args:
        urls: The services.
        listen: PORT or ADDRESS:PORT.
        whole: Whether to return a complete file for `nginx -c`, or one to include in an http block.

    Raises:
        SettingsError: The services do not fit into one upstream, or `listen` is invalid.
    """
    if not LISTEN.fullmatch(listen):
        raise SettingsError(f"{listen!r} is not PORT or ADDRESS:PORT.", "For example: 127.0.0.1:8080.")
    scheme, hosts = _upstreams(urls)
    http = TEMPLATE.format(
        server="\n".join(f"    server {host} max_fails=0;" for host in hosts),
        listen=listen,
        scheme=scheme,
        tls="        proxy_ssl_server_name on;\n" if scheme == "https" else "",
        tries=min(len(hosts), 5),
        keepalive=max(32, 2 * len(hosts)),
    )
    if not whole:
        return http
    paths = "".join(f"{kind}_temp_path {kind};\n" for kind in TEMPORARY)
    lines = f"access_log off;\n{paths}\n{http}".splitlines()
    inside = "".join(f"    {line}\n" if line else "\n" for line in lines)
    return f"{MAIN}events {{ worker_connections 4096; }}\nhttp {{\n{inside}}}\n"


def _upstreams(urls: Sequence[str]) -> tuple[str, list[str]]:
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


TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
"""Kinds of temporary files of nginx."""
MAIN = """\
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

    # Images come as base64 in JSON.
    client_max_body_size 64m;
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
        proxy_next_upstream_timeout 900s;

        proxy_connect_timeout 3s;
        proxy_send_timeout 60s;
        proxy_read_timeout 900s;
        proxy_buffer_size 16k;
        proxy_buffers 32 64k;
        proxy_busy_buffers_size 128k;
    }}
}}
"""
