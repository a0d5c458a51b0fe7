"""The configuration of an nginx before several image services, for those who have one.

Decision, each against a way in which such configurations fail:

- least_conn: draws take seconds and are uneven, so turns are no balance.
- HTTP/1.1 and an empty Connection header: without both nothing of `keepalive` happens before nginx 1.29.
- proxy_next_upstream names http_503 and non_idempotent: a POST is otherwise never given to another service.
  The same request draws the same image, so that asking another one is safe.
- max_fails=0: with http_503 among the reasons, a full queue would count as a fault and take a healthy
  service out for `fail_timeout`, under load all of them at once. One that is down refuses at once and the
  next one is asked.
- Bodies are read whole before they are passed on (nginx's default, said here because the line above needs
  it).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from ...backend.errors import SettingsError

SERVER_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}")
UPSTREAM = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:[0-9]{1,5})?")


@dataclass(frozen=True)
class Balancer:
    """An nginx at `listen` (PORT or ADDRESS:PORT). `read_seconds`: the longest draw with its wait in the
    queue. `whole`: a file for `nginx -c`, else one to be included in an http block."""

    listen: str = "127.0.0.1:8080"
    server_name: str = ""
    body_mib: int = 64
    read_seconds: int = 900
    whole: bool = False

    def configuration(self, urls: Sequence[str]) -> str:
        """The file. Raises SettingsError for services that one upstream cannot hold or names that could be
        read as more than a name."""
        scheme, hosts = self._upstreams(urls)
        server = "\n".join(f"    server {host} max_fails=0;" for host in hosts)
        named = f"    server_name {self._server_name()};\n" if self.server_name else ""
        tls = "        proxy_ssl_server_name on;\n" if scheme == "https" else ""
        http = TEMPLATE.format(
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
        if not self.whole:
            return http
        inside = "".join(f"    {line}\n" if line else "\n" for line in http.splitlines())
        return f"events {{ worker_connections 4096; }}\nhttp {{\n{inside}}}\n"

    def _listen(self) -> str:
        if not re.fullmatch(r"((\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z.-]+|\*):)?[0-9]{1,5}", self.listen):
            raise SettingsError(f"{self.listen!r} is not PORT or ADDRESS:PORT.", "Such as 127.0.0.1:8080.")
        return self.listen

    def _server_name(self) -> str:
        if not SERVER_NAME.fullmatch(self.server_name):
            raise SettingsError(f"{self.server_name!r} is not the name of a host.")
        return self.server_name

    def _upstreams(self, urls: Sequence[str]) -> tuple[str, list[str]]:
        if not urls:
            raise SettingsError("No service is named.", "Give URLs, or @FILE with one address a line.")
        schemes, hosts = set(), []
        for url in urls:
            parts = urlsplit(url)
            if not UPSTREAM.fullmatch(parts.netloc) or parts.path not in ("", "/"):
                raise SettingsError(
                    f"{url[:200]!r} is not scheme, host and port alone, which is all that an upstream holds."
                )
            port = "" if parts.port else {"http": ":80", "https": ":443"}[parts.scheme]
            schemes.add(parts.scheme)
            hosts.append(parts.netloc + port)
        if len(schemes) > 1:
            raise SettingsError("Some of the services are https and some http; one upstream is either.")
        return schemes.pop(), list(dict.fromkeys(hosts))


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
