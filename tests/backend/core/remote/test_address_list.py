"""A service's address in a shared list: added and removed, next to other lines and other processes."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.cli_calls import TESTS

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.backend.core.files.lock import SystemLock
from interleave_thinker.backend.core.remote.addresses import Addresses, registered


def test_an_address_is_listed_while_the_block_runs(tmp_path: Path) -> None:
    file = tmp_path / "ip.txt"
    with registered(file, "http://gpu-1:8011"):
        assert Addresses(f"@{file}").now() == ("http://gpu-1:8011",)
        with registered(file, "http://gpu-2:8011"):
            assert Addresses(f"@{file}").now() == ("http://gpu-1:8011", "http://gpu-2:8011")
    assert file.read_text() == "" and [one.name for one in tmp_path.iterdir()] == ["ip.txt"]


def test_other_lines_mode_and_link_are_kept(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    file = tmp_path / "shared" / "ip.txt"
    before = "# our machines\n\ngpu-3  # the old one\nnot an address at all\n"
    file.write_text(before)
    file.chmod(0o664)
    link = tmp_path / "ip.txt"
    link.symlink_to(file)
    with registered(link, "http://gpu-1:8011"):
        assert file.read_text() == f"{before}http://gpu-1:8011\n"
        assert file.stat().st_mode & 0o777 == 0o664
    assert file.read_text() == before and link.is_symlink()


def test_a_killed_service_finds_its_address_in_any_form(tmp_path: Path) -> None:
    file = tmp_path / "ip.txt"
    file.write_text("gpu-1  # left behind\ngpu-1:9000\n")
    with registered(file, "http://gpu-1:8011"):
        assert file.read_text() == "gpu-1  # left behind\ngpu-1:9000\n"
    assert file.read_text() == "gpu-1:9000\n"


def test_processes_lose_no_address(tmp_path: Path) -> None:
    file = tmp_path / "ip.txt"
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import conftest\n"
        "from pathlib import Path\n"
        "from contextlib import ExitStack\n"
        "from interleave_thinker.backend.core.remote.addresses import registered\n"
        "with ExitStack() as stack:\n"
        "    for port in range(1, 9):\n"
        "        stack.enter_context(registered(Path(sys.argv[2]), f'http://{sys.argv[3]}:{port}'))\n"
        "    print('listed', flush=True); sys.stdin.read()\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(TESTS), str(file), host],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for host in ("a", "b", "c")
    ]  # fmt: skip
    try:
        assert [one.stdout and one.stdout.readline() for one in processes] == ["listed\n"] * 3
        wanted = {f"http://{host}:{port}" for host in "abc" for port in range(1, 9)}
        assert set(Addresses(f"@{file}").now()) == wanted
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(lambda one: one.communicate(timeout=60), processes))
        assert file.read_text() == "" and {one.returncode for one in processes} == {0}
    finally:
        for one in processes:
            one.kill()


def test_lists_that_cannot_be_used_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(SettingsError, match="folder that does not exist"),
        registered(tmp_path / "none" / "ip.txt", "http://a:1"),
    ):
        pass
    full = tmp_path / "full.txt"
    full.write_text("".join(f"host-{number}\n" for number in range(256)))
    with pytest.raises(SettingsError, match="256 addresses"), registered(full, "http://a:1"):
        pass
    monkeypatch.setattr("interleave_thinker.backend.core.remote.addresses.LOCK_SECONDS", 0.05)
    lock = SystemLock(tmp_path / "ip.txt.lock")
    with ExitStack() as held:
        held.enter_context(lock.held(AssertionError()))
        with pytest.raises(SettingsError, match="locked by another process"):
            held.enter_context(registered(tmp_path / "ip.txt", "http://a:1"))


def test_a_list_that_vanished_does_not_stop_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "mounted"
    folder.mkdir()
    with registered(folder / "ip.txt", "http://a:1"):
        (folder / "ip.txt").unlink()
        folder.rmdir()
    assert "http://a:1 stays in the list" in caplog.text


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
