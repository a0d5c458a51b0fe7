"""The agent card: written, read and applied before the weights are loaded; prompts of published models."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.published_files import write_archive
from support.tiny_checkpoint import build_adapter, build_checkpoint

from interleave_thinker import Critic, Planner, SettingsError, open_chat
from interleave_thinker.backend.core.prompts.agent_card import AgentCard, MeasuredStrictness, read_card
from interleave_thinker.backend.core.prompts.importer import import_beside, store_beside
from interleave_thinker.backend.core.prompts.prompt_set import (
    default_prompt_set,
    named_prompt_set,
    prompt_set_of,
)
from interleave_thinker.backend.core.prompts.published_checkpoints import import_command, published_checkpoint
from interleave_thinker.backend.core.prompts.trained_with import trained_with
from interleave_thinker.backend.models.chat.local import chat as local_chat
from interleave_thinker.backend.models.checkpoints.checkpoint import checkpoint_digest
from interleave_thinker.backend.pipeline.models import ModelOpener

OFFICIAL = (
    'NARRATIVE_PROMPT_JSON = "plan {text_input}"\n'
    'GUIDANCE_GLOBAL_PROMPT_JSON = "plan with images {text_input}"\n'
    'Iterative_T2I_PROMPT_QWEN = "judge {original_instruction} {rewritten_prompt}"\n'
)
GATE = MeasuredStrictness(rows=200, accuracy=0.9, accepts_right=0.93, rejects_wrong=0.875, passed=True)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_checkpoint(tmp_path_factory.mktemp("base") / "stock")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A checkout with the layout of the official repository."""
    module = tmp_path / "clone" / "UEval" / "system.py"
    module.parent.mkdir(parents=True)
    module.write_text(OFFICIAL)
    return tmp_path / "clone"


def test_a_card_is_read_as_it_was_written(tmp_path: Path) -> None:
    card = AgentCard(role="critic", prompt_set="0123456789abcdef", image_pixels=589_824, gate=GATE)
    card.save(tmp_path)
    assert read_card(tmp_path / "agent.json") == card
    written = json.loads((tmp_path / "agent.json").read_text())
    assert (written["format"], written["version"]) == ("interleave-agent-card", 1)
    written["later_field"] = [[0.9, 0.8]]  # a later version may add fields
    (tmp_path / "agent.json").write_text(json.dumps(written))
    assert read_card(tmp_path / "agent.json") == card


def test_files_of_other_programs_and_folders_without_a_card_are_left_alone(tmp_path: Path) -> None:
    assert read_card(tmp_path / "agent.json") is None
    for text in ('{"tools": [], "role": "planner"}', "[1]", '{"format": "other", "version": 1}'):
        (tmp_path / "agent.json").write_text(text)
        assert read_card(tmp_path / "agent.json") is None
        trained_with(tmp_path).check_role("critic")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"role": "judge"}, "role"),
        ({"image_pixels": 12}, "image_pixels"),
        ({"image_pixels": "576"}, "image_pixels"),
        ({"image_pixels": True}, "image_pixels"),
        ({"prompt_set": "../../x"}, "prompt_set"),
        ({"gate": {"rows": 1}}, "gate"),
        ({"version": 2}, "Update the pack"),
    ],
)
def test_a_damaged_or_newer_card_is_an_error(fields: dict[str, object], message: str, tmp_path: Path) -> None:
    card = {"format": "interleave-agent-card", "version": 1, **fields}
    (tmp_path / "agent.json").write_text(json.dumps(card))
    with pytest.raises(SettingsError, match=message):
        trained_with(tmp_path)


def test_a_planner_is_no_critic(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shutil.copytree(base, tmp_path / "my-planner")
    AgentCard(role="planner", image_pixels=4096).save(folder)
    spec = f"transformers:{folder}"
    opened = ModelOpener({"device": "cpu"})
    assert opened.planner(spec).settings.max_pixels == 4096
    with pytest.raises(SettingsError, match=r"my-planner was trained as a planner .* used as a critic"):
        opened.critic(spec)  # shares the planner's weights
    with pytest.raises(SettingsError, match="cannot be used as a critic"):
        Critic(open_chat(spec, device="cpu"))
    monkeypatch.setattr(local_chat, "shared_base", lambda *given: pytest.fail("the weights were loaded"))
    with pytest.raises(SettingsError, match=r"cannot be used as a critic.*Choose a critic"):
        ModelOpener({"device": "cpu"}).critic(spec)


def test_an_adapter_gives_its_base_another_job(base: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(base, tmp_path / "planner")
    AgentCard(role="planner").save(folder)
    adapter = build_adapter(base, tmp_path / "lora", 1, 0.5)
    AgentCard(role="critic").save(adapter)
    chat = open_chat(f"transformers:{folder}", adapter=str(adapter), device="cpu", role="critic")
    Critic(chat)
    with pytest.raises(SettingsError, match="lora was trained as a critic"):
        Planner(chat)


def test_a_card_leaves_cached_answers_valid(base: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(base, tmp_path / "copy")
    before = checkpoint_digest(folder)
    AgentCard(role="critic", gate=GATE).save(folder)
    assert checkpoint_digest(folder) == before
    (folder / "trained_with.json").write_text('{"version": 1, "image_pixels": 4096}')
    assert checkpoint_digest(folder) != before, "the record of earlier versions is part of their digests"


def folder_named(tmp_path: Path, name: str, config: dict[str, object] | None = None, card: str = "") -> Path:
    folder = tmp_path / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3_vl", **(config or {})}))
    (folder / "README.md").write_text(card)
    return folder


@pytest.mark.parametrize(
    ("name", "config", "card", "found"),
    [
        ("InterleaveThinker-Planner-8B", {}, "", "InterleaveThinker-Planner-8B"),
        ("Interleave_Thinker-critic-8b-fp8", {}, "", "InterleaveThinker-Critic-8B"),
        ("Critic-SFT-8B", {}, "", "Critic-SFT-8B"),
        ("models--InterleaveThinker--Critic-SFT-8B/snapshots/0a1b", {}, "", "Critic-SFT-8B"),
        ("mine", {"_name_or_path": "/ckpt/InterleaveThinker-Critic-8B"}, "", "InterleaveThinker-Critic-8B"),
        ("mine", {}, "---\nlicense: apache-2.0\n---\n# Critic-SFT-8B\n", "Critic-SFT-8B"),
        ("mine", {}, "---\ndatasets:\n- InterleaveThinker/Train-Data\n---\n", ""),
        ("my-planner-8b", {}, "", None),
        ("Qwen3-VL-8B-Instruct", {}, "", None),
        ("InterleaveThinker-Critic-8B", {"model_type": "llama"}, "", None),
    ],
)
def test_published_checkpoints_are_recognized(
    name: str, config: dict[str, object], card: str, found: str | None, tmp_path: Path
) -> None:
    published = published_checkpoint(folder_named(tmp_path, name, config, card))
    assert (published and published.name) == found


def test_a_gguf_of_a_published_checkpoint_is_recognized(tmp_path: Path) -> None:
    published = published_checkpoint(tmp_path, "InterleaveThinker-Critic-8B-Q4_K_M.gguf")
    assert published is not None and published.role == "critic"


def test_the_import_gives_a_published_checkpoint_a_card(clone: Path, tmp_path: Path) -> None:
    folder = folder_named(tmp_path, "InterleaveThinker-Planner-8B")
    warning = trained_with(folder).warning
    assert warning is not None and "published planner" in warning
    assert import_command(folder) in warning and str(folder) in warning
    assert import_beside(clone, folder).endswith("for a planner.")
    trained = trained_with(folder)
    assert trained.warning is None and trained.prompt_set == prompt_set_of(folder)
    assert trained.prompt_set is not None
    expected = AgentCard(role="planner", prompt_set=trained.prompt_set.digest, image_pixels=1_048_576)
    assert trained.card == expected
    with pytest.raises(SettingsError, match="trained as a planner"):
        trained.check_role("critic")


def test_the_import_keeps_what_is_known(clone: Path, tmp_path: Path) -> None:
    AgentCard(role="critic", image_pixels=4096, gate=GATE).save(tmp_path)
    store_beside(named_prompt_set("short"), tmp_path)
    digest = named_prompt_set("short").digest
    assert trained_with(tmp_path).card == AgentCard(
        role="critic", prompt_set=digest, image_pixels=4096, gate=GATE
    )
    import_beside(clone, tmp_path, "planner")
    assert trained_with(tmp_path).card.role == "planner"


def test_another_prompt_set_is_reported(base: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = shutil.copytree(base, tmp_path / "mine")
    store_beside(named_prompt_set("short"), folder)
    shutil.rmtree(folder / "prompt_set")
    with caplog.at_level(logging.WARNING):
        chat = open_chat(f"transformers:{folder}", device="cpu")
        Critic(chat)
        Critic(chat, default_prompt_set())
    (line,) = [record.getMessage() for record in caplog.records]
    assert named_prompt_set("short").digest in line and str(folder / "prompt_set") in line


@pytest.mark.parametrize("way", ["path", "module", "archive"])
def test_the_import_runs_from_a_folder_of_any_name(way: str, clone: Path, tmp_path: Path) -> None:
    """As ComfyUI's users start it: no installation, the pack in custom_nodes."""
    pack = tmp_path / "custom_nodes" / ("interleave-pack" if way == "module" else "My pack v1.0")
    write_archive(tmp_path / "pack.zip")
    if way == "archive":
        with zipfile.ZipFile(tmp_path / "pack.zip") as archive:
            archive.extractall(pack)
        assert not (pack / "cli").exists()
    else:
        pack.parent.mkdir()
        pack.symlink_to(Path(__file__).parents[4], target_is_directory=True)
    target = folder_named(tmp_path, "Critic-SFT-8B")
    # -I: the portable Python of Windows does not search the working directory either.
    start = ["-m", pack.name] if way == "module" else ["-I", str(pack)]
    command = [sys.executable, *start, "prompts", "import", str(clone), "--to", str(target)]
    done = subprocess.run(command, cwd=pack.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Stored prompt set") and done.stdout.endswith("for a critic.\n")
    assert trained_with(target).card.role == "critic"
    command[-1] = str(tmp_path / "missing")
    done = subprocess.run(command, cwd=pack.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "missing' does not exist" in done.stderr
    assert "Traceback" not in done.stderr
