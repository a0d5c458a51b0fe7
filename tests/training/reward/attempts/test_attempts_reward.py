"""The reward of answers that are continued: what is generated, judged, ended and left out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image
from support.reward_fakes import Artist, Taste

from interleave_thinker.backend.answers.reading import write_verdict
from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.backend.prompts import default_prompt_set
from interleave_thinker.backend.types import Score, Verdict
from interleave_thinker.training.content_cache import ContentCache
from interleave_thinker.training.data.rows.rl import CriticRlRow, Evaluation, row_redraw_seed
from interleave_thinker.training.reward.attempts.reward import AttemptsReward, StepSample
from interleave_thinker.training.reward.attempts.terms import AttemptSettings
from interleave_thinker.training.reward.critic_reward import RewardSettings
from interleave_thinker.training.reward.redraws.drawing_settings import DrawingSettings
from interleave_thinker.training.reward.redraws.redrawer import Redrawer
from interleave_thinker.training.reward.rollout_reward import RolloutReading


class Scripted:
    """A trainer whose model judges later images by its script; records what it is asked."""

    is_fsdp_enabled = is_deepspeed_enabled = use_vllm = False
    accelerator = SimpleNamespace(num_processes=1)

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[list[str]] = []
        self.before: list[Image.Image] = []

    def sampled(self, questions: Sequence[Mapping[str, Any]]) -> list[list[int]]:
        for one in questions:
            parts = one["prompt"][0]["content"]
            assert len(one["images"]) == sum(part["type"] == "image" for part in parts) == 2
            self.before.append(one["images"][0])
        texts = ["".join(part["text"] or "" for part in one["prompt"][0]["content"]) for one in questions]
        self.asked.append(texts)
        return [list(map(ord, self.answers.pop(0))) for _ in questions]


class Exact(Taste):
    """Images of prompts with the word "red" are right."""

    def __init__(self, artist: Seeing) -> None:
        super().__init__()
        self.artist = artist

    def score(self, before, after, instruction):
        right = "red" in self.artist.prompt_of[after.digest]
        return Score(semantics=10 if right else 5, quality=5)


class Seeing(Artist):
    """Records the prompt of each image, and all seeds."""

    def __init__(self, fault: Callable[[str], object] = lambda prompt: None) -> None:
        super().__init__(fault)
        self.prompt_of: dict[str, str] = {}
        self.seeds: list[int] = []

    def draw(self, prompt, source, seed):
        self.seeds.append(seed)
        made = super().draw(prompt, source, seed)
        self.prompt_of[made.digest] = prompt
        return made


def answer(success: bool, refined: str = "") -> str:
    return write_verdict(Verdict(success=success, refined_prompt=refined, reasoning="so"))


def row(success: bool) -> CriticRlRow:
    return CriticRlRow(
        origin_prompt="a boat",
        rewritten_prompt="a boat again",
        edited_image_path="after.png",
        evaluation=Evaluation(success=success, semantics=10 if success else 5, quality=5),
    )


def rewarded(
    folder: Path,
    pairs: Sequence[tuple[str, CriticRlRow]],
    trainer: Scripted,
    artist: Seeing | None = None,
    turns: int = 3,
    right_at: float = 10,
    **settings: Any,
) -> tuple[list[StepSample], dict[str, float], Seeing]:
    Image.new("RGB", (32, 32)).save(folder / "after.png")
    artist = artist or Seeing()
    drawer = Redrawer(artist, Exact(artist), ContentCache(folder / "cache"), DrawingSettings(tries=1))
    reading = RolloutReading(
        folder, lambda ids: "".join(map(chr, ids)), prompt_set=default_prompt_set(), pixels=4096
    )
    reward = AttemptsReward(
        drawer, RewardSettings(**settings), AttemptSettings(turns=turns, right_at=right_at), reading
    )
    reward.begin(trainer, None)
    samples, measured = asyncio.run(reward.judged([one for one, _ in pairs], [one for _, one in pairs]))
    assert len(reward.verdicts) == len(pairs)
    return [one for one in samples if isinstance(one, StepSample)], measured, artist


def test_a_rejected_image_is_generated_and_judged_until_it_is_accepted(tmp_path: Path) -> None:
    trainer = Scripted(answer(False, "a red boat"), answer(True))
    pairs = [
        (answer(True), row(True)),
        (answer(True), row(False)),
        (answer(False, "a blue boat"), row(False)),
        (answer(False, "a red ship"), row(False)),
        ("nonsense", row(False)),
    ]
    samples, measured, artist = rewarded(tmp_path, pairs, trainer)
    # The blue boat is rejected and then red; the red ship is accepted. The last image is not judged.
    assert sorted(artist.prompts) == ["a blue boat", "a red boat", "a red ship"]
    assert [[one.prompt for one in sample.images] for sample in samples] == [
        ["a boat again"],
        ["a boat again"],
        ["a boat again", "a blue boat", "a red boat"],
        ["a boat again", "a red ship"],
        ["a boat again"],
    ]
    assert [sample.stop for sample in samples] == [1.0, 0.0, 0.5, 1.0, 0.0]
    assert [sample.semantic for sample in samples] == pytest.approx([0.5, 0.5, 0.75, 0.75, 0.5])
    assert [sample.accuracy for sample in samples] == [1, 0, 1, 1, 0]
    assert len(trainer.asked) == 1 and all("a boat" in text for text in trainer.asked[0])
    assert "a blue boat" in trainer.asked[0][0] and "a red ship" in trainer.asked[0][1]
    seeds = {row_redraw_seed(row(False), number, 0) for number in (0, 1)}
    assert set(artist.seeds) == seeds
    assert measured["steps/images"] == pytest.approx(8 / 5) and measured["redraw/asked"] == 3
    assert measured["steps/right"] == pytest.approx(3 / 5)
    assert measured["steps/accepted_right"] == pytest.approx(2 / 5) and measured["steps/needless"] == 0


def test_a_right_image_generated_again_costs_thrift(tmp_path: Path) -> None:
    pairs = [(answer(True), row(True)), (answer(False, "red"), row(True))]
    samples, measured, _ = rewarded(tmp_path, pairs, Scripted(answer(True)))
    kept, again = samples
    assert (kept.thrift, again.thrift) == (1.0, 0.5) and again.stop == 1.0
    assert kept.overall is not None and again.overall is not None and kept.overall > again.overall
    assert measured["steps/needless"] == 1.0


def test_with_two_turns_no_later_image_is_judged(tmp_path: Path) -> None:
    samples, _, artist = rewarded(tmp_path, [(answer(False, "red"), row(False))], Scripted(), turns=2)
    assert artist.prompts == ["red"] and samples[0].stop == 0.5 and samples[0].semantic == 0.75


def test_later_images_are_judged_next_to_the_image_before_the_step(tmp_path: Path) -> None:
    Image.new("RGB", (64, 64), "blue").save(tmp_path / "before.png")
    trainer = Scripted(answer(True), answer(True))
    edited = row(False).model_copy(update={"origin_image_path": "before.png"})
    rewarded(tmp_path, [(answer(False, "red"), edited), (answer(False, "a red ship"), row(False))], trainer)
    assert [one.getpixel((0, 0)) for one in trainer.before] == [(0, 0, 255), (255, 255, 255)]


def test_a_lower_threshold_counts_more_images_as_right(tmp_path: Path) -> None:
    pairs = [(answer(False, "a blue boat"), row(False))]
    (strict,), _, _ = rewarded(tmp_path, pairs, Scripted(answer(True)))
    (lenient,), _, _ = rewarded(tmp_path, pairs, Scripted(answer(True)), right_at=5)
    assert (strict.stop, lenient.stop) == (0.0, 1.0)


def test_an_empty_refined_prompt_repeats_the_used_one(tmp_path: Path) -> None:
    _, _, artist = rewarded(tmp_path, [(answer(False), row(False))], Scripted(), turns=2)
    assert artist.prompts == ["a boat again"]


def _dies(prompt: str) -> None:
    raise ZeroDivisionError(prompt)


def test_a_failed_image_leaves_its_answer_out_or_counts_as_neutral(tmp_path: Path) -> None:
    pairs = [(answer(False, "red"), row(False)), (answer(True), row(True))]
    (lost, kept), measured, _ = rewarded(tmp_path, pairs, Scripted(), Seeing(_dies))
    assert lost.overall is None and lost.fault and kept.overall is not None
    assert measured["redraw/failed"] == 1.0
    (tmp_path / "b").mkdir()
    (neutral, _), _, _ = rewarded(tmp_path / "b", pairs, Scripted(), Seeing(_dies), on_failure="neutral")
    assert neutral.stop == neutral.semantic == 0.5 and neutral.fault
    assert neutral.overall == pytest.approx(0.5 + 0.5 * (0.2 + 0.4 + 0.1 + 0.05) / 1.3)


@pytest.mark.parametrize(
    "changed",
    [
        {"is_fsdp_enabled": True},
        {"is_deepspeed_enabled": True},
        {"use_vllm": True, "accelerator": SimpleNamespace(num_processes=2)},
    ],
)
def test_models_that_cannot_answer_alone_are_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    trainer = Scripted()
    for name, value in changed.items():
        setattr(trainer, name, value)
    with pytest.raises(SettingsError, match="--turns 3 needs answers of each process alone"):
        rewarded(tmp_path, [(answer(True), row(True))], trainer)
