"""`serve --register`: the address in a list of services from the start to the end of a service."""

from __future__ import annotations

import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

pytest.importorskip("fastapi", reason='a service needs: pip install "interleave-thinker[serve]"')
pytest.importorskip("prometheus_client", reason='a service needs: pip install "interleave-thinker[serve]"')

from support.cli_calls import call
from support.running_service import wait_until
from support.serve_process import is_alive, serving

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.backend.models.generators import open_generator
from interleave_thinker.cli.commands.serve import advertised_url

FAKE = ("--generator", "fake:16", "--devices", "cpu")


def test_services_register_themselves_and_leave_the_list(tmp_path: Path) -> None:
    file = tmp_path / "ip.txt"
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    options = (*FAKE, "--register", str(file))
    with serving(folders[0], *options) as (first, (url,)):
        with serving(folders[1], *options, "--advertise", "localhost") as (second, (other,)):
            port = other.rpartition(":")[2]
            named = f"http://localhost:{port}"
            wait_until(lambda: is_alive(url) and is_alive(other))
            assert file.read_text().splitlines() == [url, named]
            open_generator(f"http:@{file}").draw("a boat", None, 1)
            second.send_signal(signal.SIGTERM)
            assert second.wait(30) == 0 and file.read_text().splitlines() == [url]
            log = (folders[1] / "log").read_text()
            assert f"Registering {named} in {file}" in log and "Only this machine" in log
        first.send_signal(signal.SIGINT)
        assert first.wait(30) == 0 and file.read_text() == ""


def test_a_draining_service_is_not_listed(tmp_path: Path) -> None:
    file = tmp_path / "ip.txt"
    options = ("--generator", "fake:3072", "--devices", "cpu", "--register", str(file))
    with serving(tmp_path, *options) as (process, (url,)), ThreadPoolExecutor(4) as clients:
        wait_until(lambda: is_alive(url))
        asked = [
            clients.submit(httpx.post, f"{url}/edit", json={"prompt": "a", "seed": seed}, timeout=60)
            for seed in range(4)
        ]
        wait_until(lambda: httpx.get(f"{url}/status").json()["pending_tasks"] > 0)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: file.read_text() == "")
        assert not all(one.done() for one in asked), "it leaves the list before its last images"
        assert 200 in {one.result().status_code for one in asked} and process.wait(60) == 0


def test_a_list_that_cannot_be_written_ends_the_command(tmp_path: Path) -> None:
    file = tmp_path / "none" / "ip.txt"
    shown = call("serve", *FAKE, "--port", 0, "--register", file)
    assert shown.exit_code == 2 and "folder that does not exist" in shown.output


@pytest.mark.parametrize(
    ("listening", "advertise", "url"),
    [
        ("http://127.0.0.1:8011", "", "http://127.0.0.1:8011"),
        ("http://10.0.0.7:8011", "", "http://10.0.0.7:8011"),
        ("https://0.0.0.0:8443", "", f"https://{socket.gethostname()}:8443"),
        ("http://[::]:8011", "", f"http://{socket.gethostname()}:8011"),
        ("http://0.0.0.0:8011", "gpu-3", "http://gpu-3:8011"),
        ("https://0.0.0.0:8011", "gpu-3:9000", "https://gpu-3:9000"),
        ("http://0.0.0.0:8011", "https://draw.example/", "https://draw.example"),
    ],
)
def test_the_advertised_address(listening: str, advertise: str, url: str) -> None:
    assert advertised_url(listening, advertise) == url


@pytest.mark.parametrize("advertise", ["a b", "user:secret@host", "ftp://host", "host:port"])
def test_an_invalid_address_is_an_error(advertise: str) -> None:
    with pytest.raises(SettingsError) as caught:
        advertised_url("http://0.0.0.0:8011", advertise)
    assert "secret" not in str(caught.value)


def test_register_needs_one_address(tmp_path: Path) -> None:
    for options in (("--advertise", "a"), ("--register", tmp_path / "ip.txt", "--ray", "auto")):
        shown = call("serve", *FAKE, *options)
        assert shown.exit_code == 2 and "--register" in shown.output
