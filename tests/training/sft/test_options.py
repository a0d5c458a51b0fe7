"""Options of fine-tuning (adapters, frozen vision, length limit, resuming), data checks and recipes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from support.cli_calls import call
from support.small_grpo import recipe_settings
from support.tiny_checkpoint import ACCEPTED, REFUSED, build_checkpoint, page

pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')

from interleave_thinker.backend.core.errors import SettingsError, TrainingError
from interleave_thinker.backend.models.vram.shapes import SHAPES
from interleave_thinker.cli.settings import place_of
from interleave_thinker.cli.shared_options import folder_of
from interleave_thinker.cli.train import command as cli_train
from interleave_thinker.training.recipes.recipe import STAGES, read_recipe, recipe_names
from interleave_thinker.training.rows.sft import (
    RowSet,
    SftMessage,
    SftRow,
    check_rows,
    show_balance,
    verdict_balance,
)
from interleave_thinker.training.stages.grpo_settings import GrpoTraining, batches
from interleave_thinker.training.stages.sft import SftData, SftTraining, train
from interleave_thinker.training.trainer.resume import newest_checkpoint

FAST = SftTraining(
    num_train_epochs=1,
    per_device_train_batch_size=4,
    learning_rate=1e-2,
    warmup_steps=0,
    freeze_vision=False,
    device="cpu",
    save_steps=2,
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_checkpoint(tmp_path_factory.mktemp("base") / "tiny")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    for grey in (0, 255):
        page(grey).image.save(folder / f"{grey}.png")
    page(9, (96, 96)).image.save(folder / "large.png")
    return folder


def rows(count: int = 16, *extra: str) -> list[SftRow]:
    made = []
    for number in range(count):
        question = SftMessage(role="user", content="<image><image>Is it light?" + " ".join(extra))
        answer = SftMessage(role="assistant", content=ACCEPTED if number % 2 else REFUSED)
        made.append(
            SftRow(messages=[question, answer], images=["0.png", "255.png" if number % 2 else "0.png"])
        )
    return made


def tune(
    base: Path, images: Path, out: Path, log: Callable[[str], None] = lambda line: None, **changes
) -> Path:
    data, held_out = changes.pop("rows", rows()), changes.pop("held_out", None)
    settings = FAST.model_copy(update=changes)
    return train(base, SftData(RowSet(data, images), held_out), out, settings, log=log)


def weights(folder: Path, name: str = "model.safetensors") -> dict:
    from safetensors.torch import load_file

    return load_file(folder / name)


def moved(old: dict, new: dict) -> set[str]:
    return {name for name in old if (old[name].float() - new[name].float()).abs().max() > 0}


def test_vision_is_kept_or_trained(base: Path, images: Path, tmp_path: Path) -> None:
    start = weights(base)
    kept = moved(start, weights(tune(base, images, tmp_path / "kept", freeze_vision=True)))
    assert kept and not any("visual" in name for name in kept)
    trained = moved(start, weights(tune(base, images, tmp_path / "trained")))
    assert any("visual.blocks" in name for name in trained) and any("merger" in name for name in trained)


def test_a_lora_opens_on_its_base(base: Path, images: Path, tmp_path: Path) -> None:
    from interleave_thinker.backend.models.chat import Message, ReplySettings, open_chat

    lines: list[str] = []
    adapter = tune(
        base, images, tmp_path / "run", lines.append, lora_r=4, freeze_vision=True, learning_rate=5e-2
    )
    names = weights(adapter, "adapter_model.safetensors")
    assert names and all("language_model" in name for name in names)
    assert any("parameters on 16 rows" in line for line in lines)
    asked = [Message(role="user", content=(page(0), page(255), "Is it light?"))]
    plain = open_chat(f"transformers:{base}", device="cpu", dtype="float32")
    adapted = open_chat(f"transformers:{base}", device="cpu", dtype="float32", adapter=str(adapter))
    settings = ReplySettings(max_tokens=12)
    assert plain.reply(asked, settings).text != adapted.reply(asked, settings).text


def test_a_lora_can_reach_the_vision_tower(base: Path, images: Path, tmp_path: Path) -> None:
    adapter = tune(base, images, tmp_path, lora_r=4)
    names = weights(adapter, "adapter_model.safetensors")
    assert any("visual.blocks" in name for name in names) and any("merger" in name for name in names)


def test_qlora_runs_and_leaves_the_vision_tower_alone(base: Path, images: Path, tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes", reason="quantisation needs bitsandbytes")
    from interleave_thinker.training.trainer.model_loading import load_policy

    settings = FAST.model_copy(update={"lora_r": 4, "load_in_4bit": True})
    model = load_policy(base, settings).model
    quantised = {name for name, module in model.named_modules() if type(module).__name__ == "Linear4bit"}
    assert quantised and all("language_model" in name for name in quantised)
    adapter = tune(base, images, tmp_path, lora_r=4, load_in_4bit=True, freeze_vision=True)
    assert (adapter / "adapter_model.safetensors").is_file()


@pytest.mark.parametrize("name", ["paper-8b", "one-80gb"])
def test_a_large_recipe_runs_in_small(name: str, base: Path, images: Path, tmp_path: Path) -> None:
    recipe = recipe_settings(name, "critic-sft")
    changes = {
        "device": "cpu",
        "gradient_accumulation_steps": 2,
        "per_device_train_batch_size": 2,
        "save_dtype": "auto",
        "tensorboard": False,
        "num_train_epochs": 1,
    }
    settings = recipe.model_copy(update=changes)
    assert isinstance(settings, SftTraining) and settings.bf16 and settings.freeze_vision
    data = SftData(RowSet(rows(8), images))
    final = train(base, data, tmp_path / "run", settings, log=lambda line: None)
    if settings.lora_r:
        learned = weights(final, "adapter_model.safetensors")
        assert any(one.float().abs().max() > 0 for key, one in learned.items() if "lora_B" in key)
    else:
        changed = moved(weights(base), weights(final))
        assert changed and not any("visual" in key for key in changed)


def test_answers_are_continued_at_the_right_end(base: Path) -> None:
    from transformers import AutoProcessor

    from interleave_thinker.training.trainer.model_loading import load_policy

    # The trainer leaves the side of a processor that it is given as it is, and would fail at the first uneven
    # batch.
    assert AutoProcessor.from_pretrained(base).tokenizer.padding_side == "right"
    assert load_policy(base, FAST).processor.tokenizer.padding_side == "left"


def test_only_the_answer_is_trained_on_and_the_log_states_it(
    base: Path, images: Path, tmp_path: Path
) -> None:
    lines: list[str] = []
    tune(base, images, tmp_path, lines.append)
    (said,) = [line for line in lines if line.startswith("first row: ")]
    tokens, seen, learned = map(int, re.findall(r"\d+", said)[:3])
    from transformers import AutoProcessor

    answer = AutoProcessor.from_pretrained(base).tokenizer(REFUSED)["input_ids"]
    assert seen > 0 and seen % 2 == 0  # two images of one size
    assert len(answer) <= learned <= len(answer) + 3 and tokens >= seen + learned
    assert REFUSED[-12:] in said


def test_quantised_weights_need_an_adapter(base: Path, images: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--lora-r"):
        tune(base, images, tmp_path, load_in_4bit=True)


def test_image_tokens_count_towards_the_cutoff(base: Path, images: Path, tmp_path: Path) -> None:
    small = rows(4)
    large = [row.model_copy(update={"images": ["large.png", "large.png"]}) for row in rows(1)]
    from transformers import AutoProcessor

    from interleave_thinker.training.rows.lengths import row_lengths, shown_of

    processor = AutoProcessor.from_pretrained(base)
    exact = row_lengths([shown_of(row, images) for row in [*small, *large]], processor, limit=1)
    text = [len(processor.tokenizer(message.content)["input_ids"]) for message in small[0].messages]
    assert exact[0] > sum(text) + 2 and exact[4] >= exact[0]
    with pytest.raises(SettingsError, match=r"[Rr]ow 0, length: \d+ tokens"):
        tune(base, images, tmp_path, rows=small, max_length=16)
    capped = row_lengths([shown_of(large[0], images, 48 * 48)], processor, limit=1)
    assert capped[0] <= exact[4]


class Killed(BaseException):
    """Represents a killed process."""


def test_a_killed_fine_tuning_resumes_to_the_same_weights(base: Path, images: Path, tmp_path: Path) -> None:
    straight = tune(base, images, tmp_path / "straight")

    def killer(line: str) -> None:
        if line.startswith("step 3/"):
            raise Killed

    out = tmp_path / "stopped"
    with pytest.raises(Killed):
        tune(base, images, out, killer)
    steps = out / "steps"
    assert newest_checkpoint(steps) == steps / "checkpoint-2"
    shifted = steps / "checkpoint-3"
    shifted.mkdir()
    (shifted / "model.safetensors").write_bytes(
        (steps / "checkpoint-2" / "model.safetensors").read_bytes()[:-8]
    )
    assert newest_checkpoint(steps) == steps / "checkpoint-2"
    resumed = tune(base, images, out)
    assert not moved(weights(straight), weights(resumed))
    with pytest.raises(TrainingError, match="different learning_rate"):
        tune(base, images, out, learning_rate=1e-3)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are POSIX")
def test_a_checkpoint_that_cannot_be_written_is_one_error(base: Path, images: Path, tmp_path: Path) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        with pytest.raises(TrainingError, match=r"stopped: .*File too large.* run the same command"):
            tune(base, images, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert newest_checkpoint(tmp_path / "steps") is None and not (tmp_path / "final").exists()
    assert tune(base, images, tmp_path) == tmp_path / "final"


def test_bad_rows_are_listed_with_their_reason(images: Path, tmp_path: Path) -> None:
    for name in ("0.png", "255.png"):
        (tmp_path / name).write_bytes((images / name).read_bytes())
    (tmp_path / "cut.png").write_bytes((images / "large.png").read_bytes()[:50])
    good = [row.model_dump() for row in rows(4)]
    asked, said = good[0]["messages"]
    empty = good[0] | {"messages": [asked, said | {"content": " "}]}
    bad = [
        {"messages": []},
        empty,
        good[0] | {"images": ["0.png", "cut.png"]},
        good[0] | {"images": ["0.png"]},
    ]
    path = tmp_path / "critic_sft.json"
    path.write_text(json.dumps([good[0], *bad, *good[1:]]))
    with pytest.raises(SettingsError, match="row 1, messages"):
        check_rows(path)
    kept, problems = check_rows(path, skip_bad=True)
    assert [row.model_dump() for row in kept] == good
    assert [problem.place for problem in problems] == ["row 1", "row 2", "row 3", "row 4"]
    assert [row.place for row in kept] == ["row 0", "row 5", "row 6", "row 7"], "as the file has them"
    assert "empty" in problems[1].reason
    assert "cut.png" in problems[2].reason and "1 images" in problems[3].reason


def test_published_paths_of_rows_are_found_below_the_image_folder(images: Path, tmp_path: Path) -> None:
    root = tmp_path / "root" / "0_u"
    root.mkdir(parents=True)
    for name in ("0.png", "255.png"):
        (root / name).write_bytes((images / name).read_bytes())
    written = [row.model_dump() for row in rows(4)]
    for row in written:
        row["images"] = [f"/data/klein/0_u/{name}" for name in row["images"]]
    path = tmp_path / "critic_sft.json"
    path.write_text(json.dumps(written))
    with pytest.raises(SettingsError, match=r"row 0, images.*--images"):
        check_rows(path)
    found, _ = check_rows(path, images=tmp_path / "root")
    assert {Path(name).parent for row in found for name in row.images} == {root.resolve()}


def test_a_lopsided_file_is_warned_about() -> None:
    assert verdict_balance(rows(4)) == (2, 2, 0)
    lines: list[str] = []
    show_balance(rows(4), lines.append)
    assert len(lines) == 1
    show_balance([row for row in rows(20) if "true" in row.messages[-1].content], lines.append)
    assert "WARNING" in lines[-1] and "always say True" in lines[-1]
    planned = rows(1)[0].messages[-1].model_copy(update={"content": "a plan"})
    show_balance([rows(1)[0].model_copy(update={"messages": [planned]})], lines.append)
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
    monkeypatch.setattr(cli_train, "_fine_tune", lambda model, *others: seen.append((model, others[3])))
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
        ("learning_rate: [1, 2]\n", "not a text, number"),
        ("model: tinyworld:critic\nadam_beta2: 3\n", "Allowed: number, more than 0 to 1"),
    ):
        own.write_text(text)
        assert words in trained(str(own)).stderr
    assert "paper-8b" in trained("nowhere").stderr
