"""The commands `serve check` and `serve nginx`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli_calls import call
from support.image_service import image_service


def test_check_prints_its_tests_and_sets_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLEAVE_GENERATOR_KEY", "sesame")
    with image_service() as service:
        shown = call("serve", "check", service.url, "--size", "32x32")
        assert shown.exit_code == 0, shown.output
        assert [line.split()[:2] for line in shown.output.splitlines()] == [
            ["health", "ok"],
            ["text", "ok"],
            ["edit", "ok"],
            ["again", "ok"],
        ]
        assert service.headers_seen[0]["authorization"] == "Bearer sesame"
        service.unlike_itself = True
        faulty = call("serve", "check", service.url, "--size", "32x32", "--json")
        assert faulty.exit_code == 1
        assert json.loads(faulty.output)["findings"][-1]["right"] is False


def test_check_rejects_an_invalid_size() -> None:
    shown = call("serve", "check", "http://127.0.0.1:9", "--size", "big")
    assert shown.exit_code == 2 and "WIDTHxHEIGHT" in shown.output


def test_nginx_reads_the_published_list(tmp_path: Path) -> None:
    (tmp_path / "ip.txt").write_text("# workers\n10.0.0.1\n\nhttp://10.0.0.2:9000 # the new one\n10.0.0.1\n")
    shown = call("serve", "nginx", f"@{tmp_path / 'ip.txt'}")
    assert shown.exit_code == 0, shown.output
    servers = [line.split()[1] for line in shown.output.splitlines() if line.strip().startswith("server 1")]
    assert servers == ["10.0.0.1:8011", "10.0.0.2:9000"]


def test_tools_take_bare_addresses() -> None:
    shown = call("serve", "nginx", "gpu-1,gpu-2:9000", "--service-port", 8012)
    assert "server gpu-1:8012 " in shown.output and "server gpu-2:9000 " in shown.output
    with image_service() as service:
        checked = call("serve", "check", service.url.removeprefix("http://"), "--size", "32x32")
    assert checked.exit_code == 0, checked.output


@pytest.mark.parametrize("services", ["", "@nowhere.txt", "ftp://a"])
def test_nginx_rejects_invalid_addresses(services: str) -> None:
    assert call("serve", "nginx", services).exit_code == 2
