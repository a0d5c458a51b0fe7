"""The address of a Ray cluster is checked before Ray tries for minutes to reach it."""

from __future__ import annotations

import socket

import pytest

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.backend.core.remote.addresses import check_ray_address


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_port_without_a_cluster_is_an_error(scheme: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and does not listen
        address = f"{scheme}127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(SettingsError, match="No Ray cluster answers at"):
            check_ray_address(address)
        closed.listen()
        check_ray_address(address)


@pytest.mark.parametrize("host", ["head..local", "a" * 64])
def test_a_host_name_that_cannot_exist_is_an_error(host: str) -> None:
    with pytest.raises(SettingsError, match="No Ray cluster answers at"):
        check_ray_address(f"{host}:6379")


def test_auto_means_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{closed.getsockname()[1]}")
        with pytest.raises(SettingsError, match="RAY_AUTH_MODE"):
            check_ray_address("auto")


@pytest.mark.parametrize("address", ["auto", "10.0.0.1", "host:port", "[::1"])
def test_what_has_no_port_is_left_to_ray(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    check_ray_address(address)
