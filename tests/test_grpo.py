"""Reinforcement learning of the tiny critic, run small: it learns, goes on after a kill, stops where it must."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')

from interleave_thinker.backend.errors import TrainingError
from interleave_thinker.backend.generators import open_generator
from interleave_thinker.backend.scorers import open_scorer
from interleave_thinker.backend.tinyworld import checkpoint
from interleave_thinker.training.checkpointing import is_whole, newest_checkpoint
from interleave_thinker.training.critic_reward import RewardSettings
from interleave_thinker.training.grpo import train
from interleave_thinker.training.grpo_data import CriticRlRow, read_rl_rows, write_rl_rows
from interleave_thinker.training.grpo_settings import GrpoTraining, split_held_out
from interleave_thinker.training.step_rewards import DrawingSettings
from interleave_thinker.training.tinyworld.critic_data import PageFolder, rendered
from interleave_thinker.training.tinyworld.rl_data import rl_row

SMALL = GrpoTraining(
    rate=1e-4,
    prompts=2,
    group=4,
    updates=2,
    micro_batch=4,
    rollouts=2,
    answer_tokens=200,
    save_every=1,
    check_rows=4,
    check_batch=4,
    floor=0.0,
    weight_decay=0.01,
    device="cpu",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows about rendered pages, for which nothing has to be drawn: 12 right ones and 12 wrong ones."""
    folder = tmp_path_factory.mktemp("rl")
    rng, pages = Random(3), PageFolder(folder / "pages")
    wanted, rows = {True: 12, False: 12}, []
    while any(wanted.values()):
        drawn = rendered(rng)
        if wanted[drawn.success]:
            wanted[drawn.success] -= 1
            rows.append(rl_row(drawn, pages))
    write_rl_rows(folder / "critic_rl.jsonl", rows)
    return folder / "critic_rl.jsonl"


def run(
    data: Path,
    out: Path,
    settings: GrpoTraining = SMALL,
    log: Callable[[str], None] = lambda line: None,
    **options,
) -> Path:
    rows, _ = read_rl_rows(data)
    rows, held = split_held_out(rows, settings)
    wrong_first = sorted(rows, key=lambda row: row.evaluation.success)[: 2 * settings.prompts]
    return train(
        options.get("model", checkpoint("critic")),
        options.get("rows", wrong_first),
        options.get("held", held),
        data.parent,
        out,
        settings,
        options.get("reward", RewardSettings()),
        options.get("drawing", DrawingSettings(tries=1)),
        options.get("generator", open_generator("tinyworld")),
        open_scorer("tinyworld"),
        options.get("cache"),
        log,
    )


@pytest.fixture(scope="module")
def straight(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    lines: list[str] = []
    out = tmp_path_factory.mktemp("straight")
    run(data, out, log=lines.append)
    return out, lines


def weights(folder: Path) -> dict:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def test_a_training_leaves_a_critic_its_log_and_a_page(straight: tuple[Path, list[str]]) -> None:
    out, lines = straight
    from interleave_thinker.backend.agents import Critic
    from interleave_thinker.backend.chat import ReplySettings, open_chat
    from interleave_thinker.backend.pictures import Picture

    before, after = weights(checkpoint("critic")), weights(out / "final")
    assert before.keys() == after.keys()
    assert any((after[name].float() - before[name].float()).abs().max() > 1e-5 for name in before)
    chat = open_chat(f"transformers:{out / 'final'}", device="cpu", dtype="float32")
    page = Picture.white((96, 96))
    assert (
        Critic(chat, settings=ReplySettings(max_tokens=200))
        .judge(None, page, "a sea page", "a sea page")
        .reasoning
    )
    shown = [line for line in lines if line.startswith("step 1/4")]
    assert "semantic" in shown[0] and "says true" in shown[0] and "left" in shown[0]
    checks = json.loads((out / "checks.json").read_text())
    assert sorted(map(int, checks)) == [0, 2, 4]
    rollout = [json.loads(line) for line in (out / "rollouts" / "step_000000.jsonl").read_text().splitlines()]
    assert len(rollout) == 8 and all(0 <= sample["overall"] <= 1 for sample in rollout)
    page_text = (out / "report.html").read_text()
    assert (
        "Parts of the reward" in page_text
        and "<polyline" in page_text
        and "Answers before and after" in page_text
    )
    assert not [path.name for path in (out / "final").iterdir() if path.suffix in (".bin", ".pt", ".pkl")]


class Killed(BaseException):
    """Stands for a process that is gone: nothing catches it."""


def test_a_killed_training_goes_on_to_the_same_weights(
    data: Path, straight: tuple[Path, list[str]], tmp_path: Path
) -> None:
    def killer(line: str) -> None:
        if line.startswith("step 3/"):
            raise Killed

    with pytest.raises(Killed):
        run(data, tmp_path, log=killer)
    steps = tmp_path / "steps"
    # A later checkpoint that was being written when the process died.
    shutil.copytree(steps / "checkpoint-2", steps / "checkpoint-4")
    torn = steps / "checkpoint-4" / "optimizer.pt"
    torn.write_bytes(torn.read_bytes()[:-500])
    assert not is_whole(steps / "checkpoint-4")
    assert newest_checkpoint(steps) == steps / "checkpoint-2"
    final = run(data, tmp_path)
    expected, found = weights(straight[0] / "final"), weights(final)
    assert all((expected[name] - found[name]).abs().max() < 1e-5 for name in expected)
    assert json.loads((tmp_path / "checks.json").read_text()) == json.loads(
        (straight[0] / "checks.json").read_text()
    )


def test_a_finished_training_is_left_alone_and_another_one_refused(
    data: Path, straight: tuple[Path, list[str]]
) -> None:
    out, _ = straight
    lines: list[str] = []
    made = (out / "final" / "model.safetensors").stat().st_mtime_ns
    assert run(data, out, log=lines.append) == out / "final" and lines == ["this training is finished"]
    assert (out / "final" / "model.safetensors").stat().st_mtime_ns == made
    with pytest.raises(TrainingError, match="other rate"):
        run(data, out, SMALL.model_copy(update={"rate": 2e-4}))


def _lied_about(rows: list[CriticRlRow]) -> list[CriticRlRow]:
    turned = [row.evaluation.model_copy(update={"success": not row.evaluation.success}) for row in rows]
    return [row.model_copy(update={"evaluation": one}) for row, one in zip(rows, turned, strict=True)]


def test_a_critic_below_the_floor_is_not_trained(data: Path, tmp_path: Path) -> None:
    rows, _ = read_rl_rows(data)
    held = _lied_about(split_held_out(rows, SMALL)[1])
    with pytest.raises(TrainingError, match="below the floor before any step"):
        run(data, tmp_path, SMALL.model_copy(update={"floor": 0.9}), held=held)


def test_a_collapse_stops_and_keeps_the_last_good_checkpoint(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interleave_thinker.training import grpo
    from interleave_thinker.training.critic_check import summarise

    checked = 0

    def worse_and_worse(rows, answers, tokens):
        nonlocal checked
        checked += 1
        check = summarise(rows, answers, tokens)
        return check.model_copy(update={"true_recall": (0.9, 0.8, 0.2)[checked - 1]})

    monkeypatch.setattr(grpo, "summarise", worse_and_worse)
    lines: list[str] = []
    settings = SMALL.model_copy(update={"floor": 0.5, "rollouts": 3})
    with pytest.raises(TrainingError, match=r"true recall 0\.20"):
        run(data, tmp_path, settings, lines.append)
    kept, good = weights(tmp_path / "final"), weights(tmp_path / "steps" / "checkpoint-2")
    assert all((kept[name] - good[name]).abs().max() == 0 for name in good)
    assert any("keeping step 2" in line for line in lines)
    assert "Stopped:" in (tmp_path / "report.html").read_text()
    with pytest.raises(TrainingError, match="last good checkpoint"):
        run(data, tmp_path, settings)


class Broken:
    """A generator that is down."""

    identity = "down"

    def draw(self, prompt, source, seed):
        raise ConnectionError("nobody there")


def test_an_outage_stops_training_and_mending_it_goes_on(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interleave_thinker.training import step_rewards

    monkeypatch.setattr(step_rewards, "LEAST_SEEN", 4)
    broken = Broken()
    with pytest.raises(TrainingError, match=r"nobody there.*goes on from step 0"):
        run(data, tmp_path, generator=broken)
    assert not (tmp_path / "final").exists()
    mended = open_generator("tinyworld")
    mended.identity = broken.identity  # type: ignore[misc]
    assert run(data, tmp_path, generator=mended) == tmp_path / "final"


def test_a_lora_is_trained_with_a_reference_that_is_the_start_and_merged(data: Path, tmp_path: Path) -> None:
    import torch

    from interleave_thinker.training.merge import merge

    lines: list[str] = []
    settings = SMALL.model_copy(update={"lora_rank": 4, "kl": 1e-3, "rollouts": 1, "freeze_vision": True})
    adapter = run(data, tmp_path / "run", settings, lines.append)
    assert any("of 1," in line or "weights train" in line for line in lines)
    assert (adapter / "adapter_model.safetensors").is_file() and (adapter / "prompt_set").is_dir()
    merged = merge(checkpoint("critic"), adapter, tmp_path / "merged")
    old, new = weights(checkpoint("critic")), weights(merged)
    assert old.keys() == new.keys() and {tensor.dtype for tensor in new.values()} == {torch.float16}
    moved = [name for name in old if not torch.equal(old[name], new[name])]
    assert all("language_model" in name and "_proj" in name for name in moved)
