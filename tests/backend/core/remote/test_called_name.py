"""Host names that only this machine has."""

from __future__ import annotations

import pytest

from interleave_thinker.backend.core.remote.own_servers import called_name, is_address, is_this_machine


@pytest.mark.parametrize(
    ("host", "name", "address", "own"),
    [
        ("localhost:8188", "localhost", False, True),
        ("127.0.0.1", "127.0.0.1", True, True),
        ("127.2.2.2:80", "127.2.2.2", True, True),
        ("[::1]:8188", "::1", True, True),
        ("192.168.1.5:8188", "192.168.1.5", True, False),
        ("0.0.0.0", "0.0.0.0", True, False),
        ("evil.example:8188", "evil.example", False, False),
        ("localhost.evil.example", "localhost.evil.example", False, False),
        ("127.0.0.1.evil.example", "127.0.0.1.evil.example", False, False),
        ("evil.example@localhost", "localhost", False, True),
        ("", "", False, False),
    ],
)
def test_only_names_of_this_machine_are_accepted(host: str, name: str, address: bool, own: bool) -> None:
    assert called_name(host) == name
    assert (is_address(name), is_this_machine(name)) == (address, own)


def test_invalid_address_is_rejected() -> None:
    with pytest.raises(ValueError, match="IPv6"):
        called_name("[")
