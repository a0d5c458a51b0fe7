"""Lists of services in files and on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.backend.core.remote.addresses import Addresses


@pytest.mark.parametrize(
    "content", ["# nobody", "ftp://host", "host:0", "user:secret@host", "host\n" * 100_000, "::"], ids=len
)
def test_a_list_without_valid_addresses_is_a_settings_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "ip.txt").write_text(content)
    with pytest.raises(SettingsError) as caught:
        Addresses(f"@{tmp_path / 'ip.txt'}")
    assert "secret" not in str(caught.value)
    with pytest.raises(SettingsError):
        Addresses(",".join(f"host-{number}" for number in range(300)))
