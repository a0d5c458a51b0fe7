"""Which pipelines a workflow may name, and to whom a service's key may go."""

from __future__ import annotations

from pathlib import Path

import pytest

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.backend.core.remote.api_keys import GENERATOR_KEY, GENERATOR_URL, check_services
from interleave_thinker.nodes.inputs.named_models import pipeline_folders, pipeline_spec


def pipeline(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "model_index.json").write_text("{}")
    return folder


def test_pipelines_are_found_by_name_in_every_root(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    wanted = pipeline(first / "sd")
    pipeline(second / "sd")
    deep = pipeline(second / "owner" / "model")
    roots = [first, second, tmp_path / "missing"]
    assert pipeline_folders(roots) == {"sd": wanted, "owner/model": deep}
    assert pipeline_spec(" sd ", roots) == f"diffusers:{wanted}"
    assert pipeline_spec("owner/model", roots) == f"diffusers:{deep}"
    assert pipeline_spec("someone/else", roots) == "diffusers:someone/else"


@pytest.mark.parametrize(
    "name", ["", "../secret", "..", "/etc", "a/../b", "~/models", "C:\\models", "one/two/three"]
)
def test_a_workflow_cannot_name_a_path(tmp_path: Path, name: str) -> None:
    pipeline(tmp_path / "secret")
    pipeline(tmp_path / "models" / "sd")
    with pytest.raises(SettingsError, match="found: sd"):
        pipeline_spec(name, [tmp_path / "models"])


def test_a_folder_beside_the_program_is_no_hub_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline(tmp_path / "owner" / "model")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match="none yet"):
        pipeline_spec("owner/model", [tmp_path / "models"])


def test_without_a_key_any_service_may_be_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(GENERATOR_KEY, raising=False)
    assert check_services(" https://images.example ") == "https://images.example"


@pytest.mark.parametrize(
    ("url", "trusted", "goes"),
    [
        ("http://127.0.0.1:8000", "", True),
        ("http://localhost", "", True),
        ("https://images.example/v1", "https://images.example", True),
        ("https://images.example:443", "https://images.example", True),
        ("https://images.example", "", False),
        ("http://images.example", "https://images.example", False),
        ("https://images.example:8443", "https://images.example", False),
        ("https://images.example.evil.net", "https://images.example", False),
        ("https://images.example@evil.net", "https://images.example", False),
    ],
)
def test_the_key_is_sent_only_to_this_machine_or_the_named_service(
    monkeypatch: pytest.MonkeyPatch, url: str, trusted: str, goes: bool
) -> None:
    monkeypatch.setenv(GENERATOR_KEY, "secret-key")
    monkeypatch.setenv(GENERATOR_URL, trusted)
    if goes:
        assert check_services(url) == url
        return
    with pytest.raises(SettingsError, match=GENERATOR_URL) as error:
        check_services(url)
    assert "secret-key" not in str(error.value)


@pytest.mark.parametrize(
    ("urls", "goes"),
    [
        ("http://a:1,http://b:2", True),
        ("http://b:2 , http://127.0.0.1:9", True),
        ("http://a:1,http://c:3", False),
        ("http://a:1,@/etc/passwd", False),
        ("http://a:1,", False),
    ],
)
@pytest.mark.parametrize("key", ["", "secret-key"])
def test_a_workflow_names_only_services_that_the_owner_allows(
    monkeypatch: pytest.MonkeyPatch, urls: str, goes: bool, key: str
) -> None:
    """Once there is a list, also where no key could go astray; and never a file."""
    monkeypatch.setenv(GENERATOR_KEY, key)
    monkeypatch.setenv(GENERATOR_URL, "http://a:1, http://b:2")
    if goes:
        assert check_services(urls) == ",".join(url.strip() for url in urls.split(","))
        return
    with pytest.raises(SettingsError):
        check_services(urls)


@pytest.mark.parametrize("url", ["", "images", "file:///etc/passwd", "http://", "http://a:port", "http://["])
def test_an_invalid_url_raises_an_error(url: str) -> None:
    with pytest.raises(SettingsError, match="URL"):
        check_services(url)


def test_a_service_without_the_key_is_limited_only_by_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(GENERATOR_KEY, "secret-key")
    monkeypatch.delenv(GENERATOR_URL, raising=False)
    assert check_services("https://a.example", gets_key=False) == "https://a.example"
    monkeypatch.setenv(GENERATOR_URL, "http://b:2")
    with pytest.raises(SettingsError, match=r"a\.example is not one of the services"):
        check_services("https://a.example", gets_key=False)
