"""The generated nginx configuration, tested with nginx itself where it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from support.free_port import free_port
from support.image_service import image_service

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.service.balancer import configuration

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def test_printed_configuration() -> None:
    printed = configuration(["http://10.0.0.1:8011", "http://10.0.0.2:8011"], "8080")
    assert printed.index("least_conn;") < printed.index("server 10.0.0.1:8011") < printed.index("keepalive ")
    assert "proxy_http_version 1.1;" in printed
    assert "error timeout http_503 non_idempotent;" in printed and printed.startswith("upstream")
    whole = configuration(["http://10.0.0.1:8011"], "8080", whole=True)
    assert whole.startswith("worker_processes") and "pid nginx.pid;" in whole, "paths are relative"
    assert "    proxy_temp_path proxy;" in whole and "    upstream interleave_thinker {" in whole


@pytest.mark.parametrize(
    "urls",
    [
        [],
        ["http://a:1/path"],
        ["http://a:1", "https://b:1"],
        ["http://a;}evil{"],
        ["http://a:1\n}"],
        ["http://a b"],
    ],
)
def test_invalid_upstreams_are_rejected(urls: list[str]) -> None:
    with pytest.raises(SettingsError):
        configuration(urls)


@pytest.mark.parametrize("listen", ["80;", "a b:80", "", "80\n"])
def test_a_place_to_listen_is_a_port_or_an_address(listen: str) -> None:
    with pytest.raises(SettingsError):
        configuration(["http://a:1"], listen)


@contextmanager
def nginx(folder: Path, urls: list[str]) -> Iterator[str]:
    """Run nginx with the generated configuration, in the folder and in the foreground."""
    if NGINX is None:
        pytest.skip("nginx is not installed: apt-get install nginx-light")
    port = free_port()
    printed = configuration(urls, f"127.0.0.1:{port}", whole=True)
    (folder / "nginx.conf").write_text(f"daemon off;\n{printed}")
    # The workers of a server that root starts could not read the folder as another user.
    line = [NGINX, "-p", str(folder), "-c", "nginx.conf", "-e", "error.log", "-g", "user root;"]
    running = subprocess.Popen(line[: None if os.geteuid() == 0 else -2], stderr=subprocess.PIPE)
    try:
        for _ in range(100):
            with ExitStack() as ignored:
                ignored.callback(time.sleep, 0.02)
                try:
                    httpx.get(f"http://127.0.0.1:{port}/nginx-health", trust_env=False)
                    break
                except httpx.TransportError:
                    assert running.poll() is None, running.communicate()
        yield f"http://127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait(10)


def answers_of(url: str, seconds: float, clients: int = 6) -> Counter[int]:
    """Count the statuses of the answers. Each client sends its next request after its answer."""

    def ask_on(number: int) -> list[int]:
        until, statuses = time.monotonic() + seconds, []
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            while time.monotonic() < until:
                body = {"prompt": "a red boat", "seed": number + clients * len(statuses), "image": None}
                statuses.append(client.post("/edit", json=body).status_code)
        return statuses

    with ThreadPoolExecutor(clients) as threads:
        return Counter(status for one in threads.map(ask_on, range(clients)) for status in one)


def test_a_full_service_and_a_dead_one_lose_no_request(tmp_path: Path) -> None:
    with ExitStack() as open_ones:
        services = [open_ones.enter_context(image_service()) for _ in range(2)]
        for one in services:
            one.seconds = 0.05
        services[0].most_at_once = 1
        dead = f"http://127.0.0.1:{free_port()}"
        url = open_ones.enter_context(nginx(tmp_path, [dead, *(one.url for one in services)]))
        assert set(answers_of(url, 1.0)) == {200}
        assert min(len(one.requests) for one in services) > 5
        # A forwarded rejection costs its connection. Without rejections, connections are kept.
        services[0].most_at_once, before = 100, sum(one.connections for one in services)
        asked = answers_of(url, 0.6).total()
        assert sum(one.connections for one in services) - before <= 12 < asked


def test_large_body_is_rejected_before_it_reaches_a_service(tmp_path: Path) -> None:
    with image_service() as service, nginx(tmp_path, [service.url]) as url:
        answer = httpx.post(f"{url}/edit", content=b"x" * 65 * 1024 * 1024, trust_env=False)
        assert answer.status_code == 413
        assert not service.requests
