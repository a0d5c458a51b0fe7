"""A checkpoint's record of how it was trained is stored with it, and used when it is opened."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.short_trainings import SFT, quiet, sft_row, sft_rows
from support.tiny_checkpoint import ACCEPTED, REFUSED, build_adapter, page

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from interleave_thinker import Critic, Planner, ReplySettings, SettingsError, open_chat
from interleave_thinker.backend.core.prompts.agent_card import AgentCard
from interleave_thinker.backend.core.prompts.prompt_set import (
    default_prompt_set,
    named_prompt_set,
    prompt_set_of,
)
from interleave_thinker.backend.core.prompts.trained_with import trained_with
from interleave_thinker.backend.models.chat.local.base_model import load_processor
from interleave_thinker.cli.models import CriticOptions, LocalOptions, Opener
from interleave_thinker.training.gate.gate_rows import GateSettings
from interleave_thinker.training.gate.regression_gate import RegressionGate
from interleave_thinker.training.rows.sft import RowSet
from interleave_thinker.training.stages.sft import SftData, train
from interleave_thinker.training.trainer.saving import merge

PIXELS = 1600
"""Fewer than a page of the tests has."""


@pytest.fixture(scope="module")
def run(base: Path, images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LoRA fine-tuning on images of PIXELS."""
    out = tmp_path_factory.mktemp("run") / "out"
    changes = {"max_steps": 1, "lora_r": 2, "freeze_vision": True, "image_pixels": PIXELS}
    data = SftData(RowSet(sft_rows(2), images), role="critic")
    train(base, data, out, SFT.model_copy(update=changes), named_prompt_set("short"), log=quiet)
    return out


def test_an_agent_uses_the_image_size_of_its_training(
    base: Path, run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    merged = merge(base, run / "final", tmp_path / "merged")
    moved = shutil.copytree(run / "final", tmp_path / "moved")
    spec = f"transformers:{base}"
    agents = [
        open_chat(spec, adapter=str(run / "final"), device="cpu"),
        open_chat(spec, adapter=str(moved), device="cpu"),
        open_chat(f"transformers:{merged}", device="cpu"),
        open_chat(spec, adapter=str(run / "steps" / "checkpoint-1"), device="cpu"),
    ]
    for chat in agents:
        assert chat.prompt_set == named_prompt_set("short")
        critic = Critic(chat, settings=ReplySettings(max_tokens=4))
        assert f'"max_pixels":{PIXELS}' in critic.identity
        assert chat.trained.card.role == "critic"
    card = trained_with(merged).card
    assert card == trained_with(run / "final").card == trained_with(run / "steps" / "checkpoint-1").card
    assert card == AgentCard(role="critic", prompt_set=named_prompt_set("short").digest, image_pixels=PIXELS)
    assert not caplog.records
    assert prompt_set_of(run / "elsewhere" / "checkpoint-1") is None
    stock = open_chat(spec, device="cpu")
    assert Critic(stock).settings.max_pixels == 1_048_576


def test_training_gate_and_use_see_the_same_pixels(
    base: Path, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionModel

    critic, grids, large = shutil.copytree(base, tmp_path / "critic"), set(), page(9, (96, 96))
    processor = load_processor(critic)
    processor.image_processor.size = {"shortest_edge": 1024, "longest_edge": 10**6}
    processor.save_pretrained(critic)
    see = Qwen3VLVisionModel.forward

    def seen(tower: Any, pixels: Any, grid_thw: Any, **options: Any) -> Any:
        grids.update(map(tuple, grid_thw.tolist()))
        return see(tower, pixels, grid_thw, **options)

    monkeypatch.setattr(Qwen3VLVisionModel, "forward", seen)
    rows = RowSet([sft_row("Is it light?", one, "large.png") for one in (ACCEPTED, REFUSED)], images)
    small = {"image_pixels": PIXELS, "max_steps": 1, "lora_r": 2, "freeze_vision": True}
    adapter = train(critic, SftData(rows), tmp_path / "sft", SFT.model_copy(update=small), log=quiet)
    training = SFT.model_copy(update={"adapter": str(adapter)})
    asked = GateSettings(gate_items=0, gate_tokens=16)
    RegressionGate(asked, training, quiet).check(critic, adapter, rows, tmp_path)
    assert grids == {(1, 2, 2)}, "training and gate"
    for given, grid in ((str(adapter), (1, 2, 2)), (None, (1, 6, 6))):
        grids.clear()
        used = open_chat(f"transformers:{critic}", adapter=given, device="cpu")
        Critic(used, settings=ReplySettings(max_tokens=4)).judge(large, large, "a", "a")
        assert grids == {grid}, "use"


def test_another_image_size_is_reported(base: Path, run: Path, caplog: pytest.LogCaptureFixture) -> None:
    chat = open_chat(f"transformers:{base}", adapter=str(run / "final"), device="cpu")
    given = ReplySettings(max_pixels=1_048_576)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert Critic(chat, settings=given).settings.max_pixels == 1_048_576
    with pytest.raises(SettingsError, match="trained as a critic"):
        Planner(chat)
    (line,) = [record.getMessage() for record in caplog.records]
    assert f"{PIXELS:,}" in line and "1,048,576" in line


def test_a_damaged_record_is_an_error(base: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(base, tmp_path / "copy")
    for value in (12, "576", True, None, 10**12):
        (folder / "trained_with.json").write_text(json.dumps({"version": 1, "image_pixels": value}))
        with pytest.raises(SettingsError, match="image_pixels"):
            open_chat(f"transformers:{folder}", device="cpu")


def test_a_training_of_an_earlier_version_keeps_its_image_size(tmp_path: Path) -> None:
    final = tmp_path / "run" / "final"
    final.mkdir(parents=True)
    (tmp_path / "run" / "training.json").write_text(json.dumps({"stage": "sft", "image_pixels": 589_824}))
    assert trained_with(final).image_pixels == 589_824
    (tmp_path / "run" / "training.json").write_text(json.dumps({"stage": "sft"}))
    assert trained_with(final).image_pixels is None


@pytest.mark.parametrize(
    "text", ["[1]", '{"a": 1}\n{"a": 2}', '{"image_pixels": 5}', "[" + "1," * 10**6 + "1]"]
)
def test_rows_of_the_same_name_beside_a_checkpoint_are_not_its_record(text: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "training.json").write_text(text)
    assert trained_with(tmp_path / "model").image_pixels is None


def test_a_missing_prompt_set_is_named(base: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = shutil.copytree(base, tmp_path / "InterleaveThinker-Critic-8B")
    chat = open_chat(f"transformers:{folder}", device="cpu")
    with caplog.at_level(logging.WARNING):
        Critic(chat, default_prompt_set())
        assert not caplog.records, "a prompt set was named"
        for _ in range(3):
            Critic(chat)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "InterleaveThinker-Critic-8B" in line and "prompts import" in line and "critic.prompts" in line
    default_prompt_set().save(folder / "prompt_set")
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        Critic(open_chat(f"transformers:{folder}", device="cpu"))
    assert not caplog.records


def test_a_foreign_adapter_is_reported(base: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    step = shutil.copytree(base, tmp_path / "out" / "checkpoint-40")
    (step / "trainer_state.json").write_text("{}")
    adapter = build_adapter(base, tmp_path / "lora", 1, 0.5)
    spec = f"transformers:{base}"
    with caplog.at_level(logging.WARNING):
        Critic(open_chat(spec, device="cpu"))
        assert not caplog.records, "a base model as its makers released it"
        Critic(open_chat(f"transformers:{step}", device="cpu"))
        Critic(open_chat(spec, device="cpu", adapter=str(adapter)))
    assert [record.getMessage().split()[0] for record in caplog.records] == ["checkpoint-40", "lora"]


def test_the_command_line_accepts_the_image_size(base: Path, run: Path) -> None:
    opener = Opener(LocalOptions(device="cpu"))
    options = {"critic": f"transformers:{base}", "adapter": str(run / "final")}
    critic = opener.critic(CriticOptions(**options))
    assert critic is not None and critic.settings.max_pixels == PIXELS
    given = opener.critic(CriticOptions(**options, max_pixels=4096))
    assert given is not None and given.settings.max_pixels == 4096
