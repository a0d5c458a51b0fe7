"""The commands that train the shipped checkpoints, in small: the loss falls, the results work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from interleave_thinker import AnswerError, Critic, Picture, Planner, Request, SettingsError, open_generator
from interleave_thinker.backend.models.chat import Message, ReplySettings, open_chat
from interleave_thinker.tinyworld import checkpoint
from interleave_thinker.tinyworld.drawing import draw
from interleave_thinker.tinyworld.scene import Scene, identity_of

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from interleave_thinker.research.tinyworld.models.generator import GeneratorTraining, train
from interleave_thinker.research.tinyworld.models.recipes import (
    CriticRecipe,
    PlannerRecipe,
    train_critic,
    train_planner,
)

SMALL = GeneratorTraining(steps=110, sharpen_steps=10, batch=8, heads=3, layers=2)
LINES: list[str] = []
PAGE = draw(Scene(1).put(4, identity_of("red", "boat")))


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generator")
    return train(SMALL, folder, log=LINES.append)


def _losses(lines: list[str]) -> list[float]:
    return [float(found.group(1)) for line in lines if (found := re.search(r"loss ([\d.]+)", line))]


def test_the_generators_loss_falls_and_it_generates(pipeline: Path) -> None:
    first, second = _losses(LINES)
    assert second < 0.85 * first
    generator = open_generator(f"tinyworld:{pipeline}")
    page = generator.draw("add a red fish at the top", PAGE, 1)
    assert page.size == (96, 96)
    assert page == generator.draw("add a red fish at the top", PAGE, 1)
    assert page != generator.draw("add a red fish at the top", PAGE, 2)
    assert page != generator.draw("add a red fish at the top", None, 1)


@pytest.mark.stress
@pytest.mark.timeout(1800)
def test_a_planner_is_made_and_answers(tmp_path: Path) -> None:
    lines: list[str] = []
    folder = train_planner(
        tmp_path, PlannerRecipe(rows=512, per_device_train_batch_size=16, layers=2), log=lines.append
    )
    losses = _losses(lines)
    assert losses[-1] < 0.7 * losses[0]
    chat = open_chat(f"transformers:{folder}", device="cpu", dtype="float32")
    assert chat.prompt_set is not None and "Plan" in chat.prompt_set.planner_text
    asked = Message(role="user", content=("Plan: Draw a sea page with a red boat in the middle.",))
    reply = chat.reply([asked], ReplySettings(max_tokens=60))
    assert reply.text.startswith("<think>") and reply.tokens > 10
    with pytest.raises(AnswerError):
        Planner(chat, settings=ReplySettings(max_tokens=3)).plan(Request(text="Draw a sea page."))

    lines = []
    recipe = PlannerRecipe(rows=32, per_device_train_batch_size=16, seed=1, learning_rate=1e-4)
    later = train_planner(tmp_path / "later", recipe, start=folder, log=lines.append)
    assert _losses(lines)[0] < 1.2 * losses[-1]
    assert (later / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    with pytest.raises(SettingsError, match="not a planner checkpoint"):
        train_planner(tmp_path / "lost", recipe, start=tmp_path / "mistyped")
    assert not (tmp_path / "mistyped").exists()


@pytest.mark.stress
@pytest.mark.timeout(1800)
def test_a_critic_is_trained_on_real_pages_and_replies(tmp_path: Path) -> None:
    pipeline = checkpoint("generator")
    lines: list[str] = []
    recipe = CriticRecipe(
        describe=32, rendered=256, real=32, mistakes=16, rounds=1, per_device_train_batch_size=16, layers=2
    )
    folder = train_critic(tmp_path, pipeline, recipe, lines.append)
    losses = _losses(lines)
    assert losses[-1] < 0.7 * losses[0]
    chat = open_chat(f"transformers:{folder}", device="cpu", dtype="float32")
    verdict = Critic(chat, settings=ReplySettings(max_tokens=80)).judge(
        None, Picture.white((96, 96)), "a sea page", "a sea page"
    )
    assert verdict.success in (True, False, None) and verdict.reasoning
    again: list[str] = []
    assert train_critic(tmp_path, pipeline, recipe, again.append) == folder
    assert not any("making" in line for line in again)
