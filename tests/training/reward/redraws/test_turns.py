"""Sharing one GPU: where each model is in each phase, with otherwise identical results."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.reward_fakes import WHITE, Artist, ManyArtist, Taste
from support.tiny_checkpoint import build_adapter, question

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

import torch

from interleave_thinker import Picture, ReplySettings, Score, ScorerError, SettingsError, open_chat
from interleave_thinker.backend.models.chat.local.chat import TransformersChat
from interleave_thinker.training.content_cache import ContentCache
from interleave_thinker.training.reward import redrawer as turns
from interleave_thinker.training.reward.base_judge import BaseJudge, TrainedBase
from interleave_thinker.training.reward.critic_reward import CriticReward, RewardSettings
from interleave_thinker.training.reward.redrawer import Card, DrawingSettings, Redraw, Redrawer
from interleave_thinker.training.reward.rollout_reward import RolloutReading
from interleave_thinker.training.stages.grpo_settings import GrpoTraining

GPU, MEMORY = "cpu", "main memory"


class Watched(torch.nn.Module):
    """A module that records where it was moved; it starts on the GPU. A move to `full` fails."""

    def __init__(self, full: str = "") -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.place, self.full = GPU, full

    def to(self, device: Any) -> Watched:  # type: ignore[override]
        if str(device) == self.full:
            raise torch.OutOfMemoryError("full")
        self.place = str(device)
        return self


class Together:
    """The three models of a rollout, and their places at every call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(turns, "MAIN_MEMORY", MEMORY)
        self.policy, self.painter, self.judge = Watched(), Watched(), Watched()
        self.drawing: list[tuple[str, str, str]] = []
        self.scoring: list[tuple[str, str, str]] = []
        self.artist = ManyArtist(lambda prompt: self.drawing.append(self.places))
        self.artist.modules = [self.painter]  # type: ignore[attr-defined]
        self.taste = Taste(self._scored)
        self.taste.chat = SimpleNamespace(offload=lambda: self.judge.to(MEMORY))  # type: ignore[attr-defined]
        self.trainer = SimpleNamespace(
            accelerator=SimpleNamespace(num_processes=1, unwrap_model=lambda model: model),
            model=self.policy,
            optimizer=None,
        )

    @property
    def places(self) -> tuple[str, str, str]:
        return self.policy.place, self.painter.place, self.judge.place

    def _scored(self) -> None:
        self.judge.to(GPU)  # a chat model moves itself to the GPU
        self.scoring.append(self.places)


def redraws(count: int = 5) -> list[Redraw]:
    return [Redraw(WHITE, "a boat", f"boat {number % 3}", number) for number in range(count)]


def scores(engine: Redrawer, asked: Sequence[Redraw]) -> list[Score | None]:
    outcomes, _ = asyncio.run(engine.score_all(asked))
    return [outcome.score for outcome in outcomes]


def test_each_phase_has_the_gpu_to_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    together = Together(monkeypatch)
    gpu = Card(together.artist, together.taste)
    assert together.places == (GPU, MEMORY, MEMORY), "the model that is trained is loaded next"
    gpu.begin(together.trainer)
    settings = DrawingSettings(take_turns=True, draw_batch=2)
    engine = Redrawer(together.artist, together.taste, ContentCache(tmp_path / "a"), settings, gpu)
    found = scores(engine, redraws())
    assert set(together.drawing) == {(MEMORY, GPU, MEMORY)} and len(together.drawing) == 5
    assert set(together.scoring) == {(MEMORY, MEMORY, GPU)} and len(together.scoring) == 5
    assert together.places == (GPU, MEMORY, MEMORY) and gpu.holder == "policy"
    assert dict(gpu.moves) == {"generator": 1, "judge": 1, "policy": 1}
    plain = Redrawer(ManyArtist(), Taste(), ContentCache(tmp_path / "b"), DrawingSettings(draw_batch=2))
    assert found == scores(plain, redraws()) and None not in found
    assert scores(engine, redraws()) == found and dict(gpu.moves)["generator"] == 1, "all from the cache"
    together.artist.fault = lambda prompt: "no picture"
    assert scores(engine, [Redraw(WHITE, "a boat", "another", 1)]) == [None]
    assert together.places == (GPU, MEMORY, MEMORY), "the policy returns"


def test_a_model_that_failed_to_load_does_not_count_as_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    together = Together(monkeypatch)
    together.painter = Watched(full=GPU)
    second = Watched()
    together.artist.modules = [second, together.painter]  # type: ignore[attr-defined]
    gpu = Card(together.artist, together.taste)
    gpu.begin(together.trainer)
    with pytest.raises(torch.OutOfMemoryError):
        gpu.give_to("generator")
    assert (second.place, *together.places) == (MEMORY,) * 2 + (MEMORY, MEMORY)
    together.painter.full = ""
    gpu.give_to("generator")
    assert (second.place, *together.places) == (GPU, MEMORY, GPU, MEMORY)
    gpu.give_to("policy")
    assert (second.place, *together.places) == (MEMORY, GPU, MEMORY, MEMORY)


def test_a_failed_offload_is_repeated_first(monkeypatch: pytest.MonkeyPatch) -> None:
    together = Together(monkeypatch)
    first = Watched()
    gpu = Card(together.artist, together.taste)
    together.trainer.accelerator.unwrap_model = lambda model: torch.nn.ModuleList([first, together.policy])
    monkeypatch.setattr(torch.nn.ModuleList, "to", lambda self, device: [one.to(device) for one in self])
    together.policy = Watched(full=MEMORY)
    gpu.begin(together.trainer)
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError):
            gpu.give_to("generator")
        assert together.painter.place == MEMORY, "never both on the GPU"
    assert first.place == MEMORY and gpu.holder is None
    gpu.give_to("policy")
    assert (first.place, together.policy.place, gpu.holder) == (GPU, GPU, "policy"), "whole again"
    together.policy.full = ""
    gpu.give_to("generator")
    assert (first.place, *together.places) == (MEMORY, MEMORY, GPU, MEMORY)


def test_models_without_local_weights_do_not_take_turns(tmp_path: Path) -> None:
    gpu = Card(Artist(), Taste())
    engine = Redrawer(Artist(), Taste(), ContentCache(tmp_path / "a"), DrawingSettings(), gpu)
    assert None not in scores(engine, redraws(2)) and gpu.holder == "policy"
    spread = SimpleNamespace(accelerator=SimpleNamespace(num_processes=2))
    with pytest.raises(SettingsError, match="one GPU"):
        gpu.begin(spread)


def test_the_optimisers_tensors_move_with_the_weights() -> None:
    weight = torch.nn.Parameter(torch.ones(4, 4))
    optimizer = torch.optim.AdamW([weight])
    assert turns.optimizer_tensors(optimizer) == [] and turns.optimizer_tensors(None) == []
    weight.grad = torch.ones(4, 4)
    optimizer.step()
    assert [one.shape for one in turns.optimizer_tensors(optimizer)] == [(4, 4), (4, 4)]


def test_the_base_under_an_adapter_answers_as_the_base_does(base: Path, tmp_path: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForImageTextToText, AutoProcessor

    adapter = build_adapter(base, tmp_path / "adapter", 1, 0.5)
    loaded = AutoModelForImageTextToText.from_pretrained(base, dtype=torch.float32)
    trained = PeftModel.from_pretrained(loaded, str(adapter), is_trainable=True)
    trained.train()
    settings, asked = ReplySettings(max_tokens=24), question(20, 240)
    own = TransformersChat(TrainedBase(base, trained, AutoProcessor.from_pretrained(base)))
    alone = open_chat(f"transformers:{base}", device="cpu", dtype="float32")
    adapted = open_chat(f"transformers:{base}", device="cpu", dtype="float32", adapter=str(adapter))
    wanted = alone.reply(asked, settings).text
    assert own.reply(asked, settings).text == wanted != adapted.reply(asked, settings).text
    assert trained.training and sum(weight.requires_grad for weight in trained.parameters()) > 0
    ids = torch.tensor([[5, 6, 7, 8]])
    trained(input_ids=ids, labels=ids).loss.backward()
    assert any(weight.grad is not None for weight in trained.parameters()), "it is trained on as before"


def test_a_base_is_a_judge_only_under_an_adapter(base: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--lora-r"):
        BaseJudge(base, GrpoTraining())
    judge = BaseJudge(base, GrpoTraining(lora_r=4))
    assert judge.identity.startswith("judge:base:base:")
    with pytest.raises(ScorerError, match="before the model is loaded"):
        judge.score(None, Picture.white((8, 8)), "a boat")
    engine = Redrawer(Artist(), judge, ContentCache(tmp_path / "cache"), DrawingSettings())
    sharded = SimpleNamespace(is_fsdp_enabled=True, is_deepspeed_enabled=False)
    with pytest.raises(SettingsError, match="FSDP"):
        CriticReward(engine, RewardSettings(), RolloutReading(tmp_path, str)).begin(sharded, None)
    gpu = Card(Artist(), judge)
    gpu.give_to("generator")
    gpu.give_to("judge")
    assert gpu.holder == "policy", "it scores on the trained model's place"
