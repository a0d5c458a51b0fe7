"""The folder of `serve nginx --to`, with nginx itself where it is installed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest
from support.cli_calls import call
from support.free_port import free_port
from support.running_service import wait_until
from support.stand_in_service import stand_in_service

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.service.balancer import Balancer, write_folder

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
needs_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is not installed: apt-get install nginx-light")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with a space in its name, whose nginx ends with the test."""
    place = tmp_path / "load balancer"
    yield place
    with suppress(OSError, ValueError):
        os.kill(int((place / "nginx.pid").read_text()), signal.SIGTERM)


def script(folder: Path, name: str, **environment: str) -> subprocess.CompletedProcess[str]:
    # Output goes to files, since a daemon would keep a pipe open.
    with (folder / f"{name}.out").open("w+") as out:
        done = subprocess.run(
            [folder / name], stdout=out, stderr=out, cwd="/", env={**os.environ, **environment}, timeout=60
        )
        out.seek(0)
        return subprocess.CompletedProcess(done.args, done.returncode, out.read())


def asked(url: str, seed: int) -> int:
    body = {"prompt": "a boat", "seed": seed, "image": None, "note": "A" * 100_000}
    return httpx.post(f"{url}/edit", json=body, trust_env=False, timeout=30).status_code


@needs_nginx
def test_nginx_starts_reloads_and_stops_with_the_scripts(folder: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with ExitStack() as running:
        first, second = (running.enter_context(stand_in_service()) for _ in range(2))
        made = call("serve", "nginx", first.url, "--listen", port, "--to", folder)
        assert made.exit_code == 0 and str(folder / "start.sh") in made.output.replace("\n", "")
        started = script(folder, "start.sh")
        assert started.returncode == 0 and started.stdout == "nginx runs. Stop it with stop.sh.\n", started
        assert httpx.get(f"{url}/nginx-health", trust_env=False).text == "ok\n"
        pid = int((folder / "nginx.pid").read_text())
        assert asked(url, 1) == 200 and len(first.bodies) == 1, "the body passed a temporary file"
        assert (folder / "temporary" / "client_body").is_dir()

        assert call("serve", "nginx", second.url, "--listen", port, "--to", folder).exit_code == 0
        reloaded = script(folder, "start.sh")
        assert "reads its configuration again" in reloaded.stdout, reloaded
        assert int((folder / "nginx.pid").read_text()) == pid
        # Workers of the earlier configuration end on their own.
        wait_until(lambda: asked(url, 2) == 200 and len(second.bodies) > 0)

        stopped = script(folder, "stop.sh")
        assert stopped.returncode == 0 and stopped.stdout == "nginx has stopped.\n", stopped
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{url}/nginx-health", trust_env=False)
        assert not (folder / "nginx.pid").exists()
        assert script(folder, "stop.sh").stdout == "nginx does not run.\n"


@needs_nginx
def test_an_occupied_port_is_reported(folder: Path) -> None:
    with stand_in_service() as service:
        write_folder(folder, Balancer(listen=service.url.removeprefix("http://")), [service.url])
        failed = script(folder, "start.sh")
    assert failed.returncode != 0 and "Address already in use" in failed.stdout


def test_a_missing_nginx_is_reported(folder: Path) -> None:
    write_folder(folder, Balancer(), ["http://a:1"])
    for name in ("start.sh", "stop.sh"):
        failed = script(folder, name, NGINX="no-such-nginx")
        assert failed.returncode == 1 and failed.stdout.startswith("nginx was not found.")


@pytest.mark.parametrize("name", ["nginx.conf", "start.sh", "stop.sh"])
def test_a_file_of_the_user_is_not_replaced(folder: Path, name: str) -> None:
    folder.mkdir()
    (folder / name).write_text("my own file\n")
    with pytest.raises(SettingsError, match=f"{name}' was not written by `serve nginx`"):
        write_folder(folder, Balancer(), ["http://a:1"])
    assert (folder / name).read_text() == "my own file\n" and len(list(folder.iterdir())) == 1
    assert call("serve", "nginx", "a", "--to", folder, "--whole").exit_code == 2
