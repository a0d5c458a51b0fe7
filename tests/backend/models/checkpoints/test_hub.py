"""Downloads of agents: only safe files, complete or not at all, resumable and cancelable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import huggingface_hub.constants
import pytest
from support.hub_server import HubServer, hub_server
from support.tiny_checkpoint import build_checkpoint

from interleave_thinker.backend.core.errors import Cancelled, ChatError, SettingsError
from interleave_thinker.backend.models.checkpoints.checkpoint import find_checkpoint
from interleave_thinker.backend.models.checkpoints.hub import check_hub_id, fetch_checkpoint

HUB_ID = "someone/tiny-agent"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = build_checkpoint(tmp_path_factory.mktemp("hub") / "published")
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    (folder / "modeling_own.py").write_text("raise SystemExit")
    return folder


@pytest.fixture
def hub(published: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with hub_server(HUB_ID, published) as server:
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", server.url)
        monkeypatch.setattr(
            huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE",
            server.url + "/{repo_id}/resolve/{revision}/{filename}",
        )  # fmt: skip
        monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", server.url)
        yield server


def test_a_checkpoint_is_downloaded_without_pickles_or_code(hub: HubServer, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    folder = fetch_checkpoint(HUB_ID, tmp_path, lambda done, total: seen.append((done, total)))
    assert folder == tmp_path / "someone" / "tiny-agent"
    assert find_checkpoint(str(folder)) == folder.resolve()
    names = {path.name for path in folder.iterdir()}
    assert "model.safetensors" in names and not names & {"pytorch_model.bin", "modeling_own.py"}
    assert seen[-1][0] == seen[-1][1] and seen == sorted(seen)
    assert [path.name for path in tmp_path.iterdir()] == ["someone"], "nothing else is left"
    asked = len(hub.asked)
    assert fetch_checkpoint(HUB_ID, tmp_path) == folder.resolve() and len(hub.asked) == asked


def test_interrupted_download_resumes(hub: HubServer, tmp_path: Path) -> None:
    hub.cut = 1000
    with pytest.raises(ChatError, match="Cannot reach"):
        fetch_checkpoint(HUB_ID, tmp_path)
    assert not (tmp_path / "someone").exists()
    folder = fetch_checkpoint(HUB_ID, tmp_path)
    assert ("model.safetensors", "bytes=1000-") in hub.asked
    assert (folder / "model.safetensors").read_bytes() == hub.files["model.safetensors"]


def test_the_token_is_never_shown(hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = "hf_ABCDEFGHIJKLMNOPQRST"
    monkeypatch.setenv("HF_TOKEN", token)
    headers: list[Mapping[str, str]] = []

    def refuse(self: httpx.Client, method: str, url: str, **options: Any) -> None:
        headers.append(self.headers)
        raise httpx.ConnectError(f"no way to {url} with {self.headers['authorization']}")

    monkeypatch.setattr(httpx.Client, "stream", refuse)
    with pytest.raises(ChatError, match="Cannot reach") as error:
        fetch_checkpoint(HUB_ID, tmp_path)
    assert headers[0]["authorization"] == f"Bearer {token}"
    assert "ABCDEFGH" not in str(error.value) and "(key)" in str(error.value)


def test_damaged_file_is_deleted(hub: HubServer, tmp_path: Path) -> None:
    hub.damaged = True
    with pytest.raises(ChatError, match=r"model\.safetensors arrived damaged"):
        fetch_checkpoint(HUB_ID, tmp_path)
    assert not (tmp_path / "someone").exists()
    hub.damaged = False
    assert fetch_checkpoint(HUB_ID, tmp_path).is_dir()


def test_cancelling_stops_the_download(hub: HubServer, tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise Cancelled("Stopped.")

    with pytest.raises(Cancelled):
        fetch_checkpoint(HUB_ID, tmp_path, stop)
    assert not (tmp_path / "someone").exists()


def test_another_kind_of_model_is_rejected_before_its_weights_load(hub: HubServer, tmp_path: Path) -> None:
    hub.files["config.json"] = b'{"model_type": "llama"}'
    with pytest.raises(ChatError, match="'llama' checkpoint"):
        fetch_checkpoint(HUB_ID, tmp_path)
    assert [name for name, _ in hub.asked] == ["config.json"]


def test_an_offline_hub_is_reported(hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    huggingface_hub.close_session()
    try:
        with pytest.raises(ChatError, match="HF_HUB_OFFLINE"):
            fetch_checkpoint(HUB_ID, tmp_path)
    finally:
        huggingface_hub.close_session()


@pytest.mark.parametrize("name", ["../..", "/etc/passwd", "one", "a/b/c", "a\\b/c", "a/b\n"])
def test_invalid_model_name_is_rejected(name: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        check_hub_id(name)
    with pytest.raises(SettingsError):
        fetch_checkpoint(name, tmp_path)
    assert not list(tmp_path.iterdir())
