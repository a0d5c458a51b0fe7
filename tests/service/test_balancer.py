"""The example of an nginx configuration, with nginx itself where it is installed."""

from __future__ import annotations

import os
import re
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

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "nginx.conf"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


@contextmanager
def nginx(folder: Path, urls: list[str]) -> Iterator[str]:
    """Run nginx with the generated configuration, in the folder and in the foreground."""
    if NGINX is None:
        pytest.skip("nginx is not installed: apt-get install nginx-light")
    port = free_port()
    servers = "".join(f"server {url.removeprefix('http://')} max_fails=0;" for url in urls)
    example = re.sub(r"(server 10\.\S+ max_fails=0;\s+)+", servers, EXAMPLE.read_text(encoding="utf-8"))
    listening = example.replace("listen 127.0.0.1:8080", f"listen 127.0.0.1:{port}")
    (folder / "nginx.conf").write_text(f"daemon off;\n{listening}")
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
