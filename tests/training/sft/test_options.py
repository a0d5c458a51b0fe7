"""Options of fine-tuning (adapters, frozen vision, length limit, resuming), data checks and recipes."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from support import short_trainings as short
from support.cli_calls import call
from support.short_trainings import moved
from support.small_grpo import recipe_settings
from support.tiny_checkpoint import REFUSED, question

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from interleave_thinker.backend.core.errors import SettingsError, TrainingError
from interleave_thinker.backend.models.vram.shapes import SHAPES
from interleave_thinker.cli import shared_options
from interleave_thinker.cli.settings import place_of
from interleave_thinker.cli.shared_options import folder_of
from interleave_thinker.cli.train import command as cli_train
from interleave_thinker.training.recipes.recipe import STAGES, read_recipe, recipe_names
from interleave_thinker.training.rows.lengths import row_lengths, shown_of
from interleave_thinker.training.rows.sft import RowSet, check_rows, show_balance
from interleave_thinker.training.stages.grpo_settings import GrpoTraining, batches
from interleave_thinker.training.stages.sft import SftData, SftTraining, train
from interleave_thinker.training.trainer import model_loading
from interleave_thinker.training.trainer.model_loading import check_options, load_processor, starting_from
from interleave_thinker.training.trainer.resume import newest_checkpoint


def test_vision_is_kept_or_trained(folder: Path, base: Path, tmp_path: Path) -> None:
    kept = moved(base, short.sft(folder, tmp_path / "kept", freeze_vision=True, max_steps=2))
    assert kept and not any("visual" in name for name in kept)
    trained = moved(base, short.sft(folder, tmp_path / "trained", max_steps=2))
    assert any("visual.blocks" in name for name in trained) and any("merger" in name for name in trained)


def test_a_lora_opens_on_its_base_and_can_reach_the_vision_tower(base: Path, tuned: Path) -> None:
    from interleave_thinker.backend.models.chat import ReplySettings, open_chat

    adapter = tuned / "final"
    names = short.weights(adapter, "adapter_model.safetensors")
    for part in ("language_model", "visual.blocks", "merger"):
        assert any(part in name for name in names), part
    plain = open_chat(f"transformers:{base}", device="cpu", dtype="float32")
    adapted = open_chat(f"transformers:{base}", device="cpu", dtype="float32", adapter=str(adapter))
    asked, settings = question(0, 255), ReplySettings(max_tokens=12)
    assert plain.reply(asked, settings).text != adapted.reply(asked, settings).text


def test_an_adapter_is_trained_further(folder: Path, base: Path, tuned: Path, tmp_path: Path) -> None:
    given = tuned / "final"
    start, settings = starting_from(str(given), short.SFT)
    assert (start, settings.adapter) == (str(base), str(given))
    final = short.sft(folder, tmp_path, adapter=str(given), learning_rate=1e-30, max_steps=1)
    before, after = (short.weights(one, "adapter_model.safetensors") for one in (given, final))
    assert before.keys() == after.keys() and all(before[name].equal(after[name]) for name in before)
    made = json.loads((final / "adapter_config.json").read_text())
    assert (made["base_model_name_or_path"], made["r"]) == (str(base), 2)
    with pytest.raises(TrainingError, match="different adapter"):
        short.sft(folder, tmp_path, learning_rate=1e-30, max_steps=1)


def test_qlora_runs_and_leaves_the_vision_tower_alone(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes", reason="quantisation needs bitsandbytes")
    adapter = short.sft(folder, tmp_path, lora_r=4, load_in_4bit=True, freeze_vision=True, max_steps=1)
    learned = short.weights(adapter, "adapter_model.safetensors")
    assert learned and all("language_model" in name for name in learned)


@pytest.mark.parametrize("name", ["paper-8b", "one-80gb"])
def test_a_large_recipe_runs_in_small(name: str, folder: Path, base: Path, tmp_path: Path) -> None:
    recipe = recipe_settings(name, "critic-sft")
    assert isinstance(recipe, SftTraining) and recipe.bf16 and recipe.freeze_vision
    changes = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "save_dtype": "auto"}
    kept = short.SFT.model_dump(include={"device", "tensorboard", "num_train_epochs"})
    settings = recipe.model_copy(update=changes | kept)
    data = SftData(RowSet(short.sft_rows(8), folder))
    final = train(base, data, tmp_path / "run", settings, log=short.quiet)
    if settings.lora_r:
        learned = short.weights(final, "adapter_model.safetensors")
        assert any(one.float().abs().max() > 0 for key, one in learned.items() if "lora_B" in key)
    else:
        changed = moved(base, final)
        assert changed and not any("visual" in key for key in changed)


def test_answers_are_continued_at_the_right_end(base: Path) -> None:
    from transformers import AutoProcessor

    from interleave_thinker.training.trainer.model_loading import load_policy

    # The trainer leaves the side of a processor that it is given as it is, and would fail at the first uneven
    # batch.
    assert AutoProcessor.from_pretrained(base).tokenizer.padding_side == "right"
    assert load_policy(base, short.SFT).processor.tokenizer.padding_side == "left"


def test_quantised_weights_need_an_adapter() -> None:
    with pytest.raises(SettingsError, match="--lora-r"):
        check_options(SftTraining(load_in_4bit=True))


def test_image_tokens_count_towards_the_cutoff(folder: Path, base: Path, tmp_path: Path) -> None:
    small = short.sft_rows(1)[0]
    large = small.model_copy(update={"images": ["large.png", "large.png"]})
    processor = load_processor(base)
    exact = row_lengths([shown_of(row, folder) for row in (small, large)], processor, limit=1)
    text = [len(processor.tokenizer(message.content)["input_ids"]) for message in small.messages]
    assert sum(text) + 2 < exact[0] <= exact[1]
    capped = row_lengths([shown_of(large, folder, 48 * 48)], processor, limit=1)
    assert capped[0] <= exact[1]


def test_a_killed_training_is_resumed(folder: Path, base: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    dropout = {"lora_r": 4, "lora_dropout": 0.2}  # needs the random state to be restored
    straight = short.sft(folder, tmp_path / "straight", lines.append, **dropout)
    (said,) = [line for line in lines if line.startswith("first row: ")]
    tokens, seen, learned = map(int, re.findall(r"\d+", said)[:3])
    answer = load_processor(base).tokenizer(REFUSED)["input_ids"]
    assert seen > 0 and seen % 2 == 0  # two images of one size
    assert len(answer) <= learned <= len(answer) + 3 and tokens >= seen + learned
    assert REFUSED[-12:] in said
    out = tmp_path / "stopped"
    with pytest.raises(short.Killed):
        short.sft(folder, out, short.AtStep(3, short.die), **dropout)
    steps = out / "steps"
    shifted = steps / "checkpoint-3"
    shifted.mkdir()
    adapter = "adapter_model.safetensors"
    (shifted / adapter).write_bytes((steps / "checkpoint-2" / adapter).read_bytes()[:-8])
    assert newest_checkpoint(steps) == steps / "checkpoint-2"
    # A result that was half written when an earlier process died.
    (out / "final.part").mkdir()
    (out / "final.part" / "model-00001-of-00009.safetensors").write_bytes(b"half")
    final = short.sft(folder, out, **dropout)
    assert (final / adapter).read_bytes() == (straight / adapter).read_bytes()
    assert {path.name for path in final.iterdir()} == {path.name for path in straight.iterdir()}
    with pytest.raises(TrainingError, match="different learning_rate"):
        short.sft(folder, out, learning_rate=1e-3, **dropout)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are POSIX")
def test_a_checkpoint_that_cannot_be_written_is_one_error(folder: Path, tmp_path: Path) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        with pytest.raises(TrainingError, match=r"stopped: .*File too large.* run the same command"):
            short.sft(folder, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert newest_checkpoint(tmp_path / "steps") is None and not (tmp_path / "final").exists()


def test_bad_rows_are_listed_with_their_reason(images: Path, tmp_path: Path) -> None:
    for name in ("0.png", "255.png"):
        shutil.copy(images / name, tmp_path)
    (tmp_path / "cut.png").write_bytes((images / "large.png").read_bytes()[:50])
    good = [row.model_dump() for row in short.sft_rows(4)]
    asked, said = good[0]["messages"]
    bad: dict[str, dict[str, Any]] = {
        "messages": {"messages": []},
        "empty": good[0] | {"messages": [asked, said | {"content": " "}]},
        "cut.png": good[0] | {"images": ["0.png", "cut.png"]},
        "1 images": good[0] | {"images": ["0.png"]},
    }
    path = tmp_path / "critic_sft.json"
    path.write_text(json.dumps([good[0], *bad.values(), *good[1:]]))
    with pytest.raises(SettingsError, match="row 1, messages"):
        check_rows(path)
    kept, problems = check_rows(path, skip_bad=True)
    assert [row.model_dump() for row in kept] == good
    assert [row.place for row in kept] == ["row 0", "row 5", "row 6", "row 7"], "as the file has them"
    for number, (reason, problem) in enumerate(zip(bad, problems, strict=True), 1):
        assert problem.place == f"row {number}" and reason in str(problem)


def test_a_lopsided_file_is_warned_about() -> None:
    rows, lines = short.sft_rows(8), list[str]()
    show_balance(rows, lines.append)
    assert lines == ["verdicts: 4 True, 4 False"]
    show_balance(rows[1::2], lines.append)
    assert "WARNING" in lines[-1] and "always say True" in lines[-1]
    show_balance([short.sft_row("Plan.", "a plan")], lines.append)
    assert "not rows for a critic" in lines[-1]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", ["paper-8b", "one-80gb", "one-24gb", "tiny"])
def test_shipped_recipes_are_the_commands_own_options(name: str, stage: str) -> None:
    assert name in recipe_names()
    values = read_recipe(name, stage)
    settings = recipe_settings(name, stage)
    command = typer.main.get_command(cli_train.app).commands[stage]  # type: ignore[attr-defined]
    assert all(place_of(command, key) for key in values.keys() - {"devices"})
    if isinstance(settings, GrpoTraining):
        batches(settings, values["devices"])
    assert values["model"] in SHAPES or (folder_of(values["model"]) / "config.json").is_file()


def test_the_command_line_wins_over_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, SftTraining]] = []
    monkeypatch.setattr(shared_options, "checkpoint_of", lambda model, download: model)
    monkeypatch.setattr(model_loading, "check_options", lambda settings: None)
    monkeypatch.setattr(cli_train, "_fine_tune", lambda model, *others: seen.append((model, others[2])))
    data = tmp_path / "d.json"
    data.write_text("[]")

    def trained(recipe: str, *more: str) -> Any:
        files = ("--data", data, "--out", tmp_path / "o")
        return call("train", "critic-sft", "--config", recipe, *files, "--learning-rate", "0.5", *more)

    assert trained("tiny").exit_code == trained("one-24gb").exit_code == 0
    (model, tiny), (_, small) = seen
    assert (model, tiny.learning_rate, tiny.save_dtype) == ("tinyworld:critic", 0.5, "float16")
    assert small.load_in_4bit and small.bf16
    assert trained("one-24gb", "--no-load-in-4bit", "--set", "bf16=false").exit_code == 0
    last = seen[-1][1]
    assert not last.load_in_4bit and not last.bf16 and last.lora_r == 16
    own = tmp_path / "own.yaml"
    for text, words in (
        (
            "learning-rate: 0.25\nload_in_4bits: 1\n",
            "does not have a setting 'load_in_4bits'. Did you mean load_in_4bit",
        ),
        ("learning_rate: {a: 1}\n", "not a text, number"),
        ("model: tinyworld:critic\nadam_beta2: 3\n", "Allowed: number, more than 0 to 1"),
        ("critic-sft:\n  lora_r: 4\ncritic-sfd:\n  lora_r: 8\n", "unknown section 'critic-sfd'"),
        ("lora_r: 4\ncritic-sft:\n  lora_r: 8\n", "Sections are planner-sft, critic-sft, "),
    ):
        own.write_text(text)
        assert words in trained(str(own)).stderr
    assert "paper-8b" in trained("nowhere").stderr
