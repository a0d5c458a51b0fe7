"""The reward of a batch of answers: which images are redrawn, what is left out, what is logged."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image
from support.reward_fakes import Artist, Taste, critic_reward

from interleave_thinker import Picture, Score, Verdict
from interleave_thinker.backend.core.answers.reading import write_verdict
from interleave_thinker.training.reward.critic_reward import MIN_VERDICTS, CriticReward, Sample, measures
from interleave_thinker.training.reward.redrawer import BatchCounts
from interleave_thinker.training.reward.rollout_reward import spread
from interleave_thinker.training.rows.rl import CriticRlRow, Evaluation, row_redraw_seed

NO_STEPS = {"semantic_weight": 0, "quality_weight": 0}


class Seeing(Artist):
    """Records what it generated with."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.seeds: list[int] = []
        self.sources: list[Picture | None] = []

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        self.seeds.append(seed)
        self.sources.append(source)
        return super().draw(prompt, source, seed)


class Ten(Taste):
    """Scores everything as perfect."""

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        super().score(before, after, instruction)
        return Score(semantics=10, quality=10)


def answer(success: bool, refined: str = "a red boat") -> str:
    return write_verdict(Verdict(success=success, refined_prompt=refined, reasoning="so"))


def row(success: bool, **more: Any) -> CriticRlRow:
    score = 10 if success else 4
    return CriticRlRow(
        origin_prompt="a boat",
        rewritten_prompt="a boat again",
        edited_image_path="after.png",
        evaluation=Evaluation(success=success, semantics=score, quality=score),
        **more,
    )


def samples(judge: CriticReward, *pairs: tuple[str, CriticRlRow]) -> list[Sample]:
    return asyncio.run(judge.judged([one for one, _ in pairs], [one for _, one in pairs]))[0]


def test_published_rewards_of_every_case(tmp_path: Path) -> None:
    artist = Seeing()
    found = samples(
        critic_reward(tmp_path, artist, Ten()),
        (answer(True), row(True)),
        (answer(False), row(True)),
        (answer(False), row(False)),
        (answer(True, ""), row(False)),
        ("nonsense", row(False)),
    )
    assert [sample.redrawn for sample in found] == [False, False, True, True, False]
    # 0.5 x 1 + 0.5 x (0.2 x accuracy + 0.8 x step): no redraw is 0.5, from 4 to 10 is 0.8.
    assert [sample.overall for sample in found] == pytest.approx([0.8, 0.7, 0.92, 0.82, 0.2])
    assert artist.prompts == ["a red boat", "a boat again"]  # an empty refined prompt keeps the one used
    assert artist.seeds == [row_redraw_seed(row(False), 0, 0)] * 2


def test_an_image_without_scores_is_scored_by_the_same_scorer(tmp_path: Path) -> None:
    artist, scores = Seeing(), iter([Score(semantics=4, quality=4), Score(semantics=10, quality=10)])
    plain = row(False).model_copy(update={"evaluation": Evaluation(success=False)})
    taste = Taste(lambda: next(scores))
    (found,) = samples(critic_reward(tmp_path, artist, taste), (answer(False), plain))
    assert found.overall == pytest.approx(0.92) and artist.prompts == ["a red boat"]
    right_row = row(True).model_copy(update={"evaluation": Evaluation(success=True)})
    (right,) = samples(critic_reward(tmp_path, artist, taste), (answer(True), right_row))
    assert right.overall == pytest.approx(0.8), "an image that is right needs no score"


@pytest.mark.parametrize("color", ["white", "red"])
def test_a_white_source_image_is_redrawn_from_text(tmp_path: Path, color: str) -> None:
    Image.new("RGB", (32, 32), color).save(tmp_path / "before.png")
    artist, taste = Seeing(), Ten()
    asked = row(False, origin_image_path="before.png")
    samples(critic_reward(tmp_path, artist, taste), (answer(False), asked))
    expected = None if color == "white" else Picture.open(tmp_path / "before.png")
    assert artist.sources == taste.befores == [expected]


@pytest.mark.parametrize(
    ("seed", "settings", "expected"),
    [
        (41, {"seeds": "row", "draws": 2}, [41, None]),  # further images need their own seeds
        (None, {"seeds": "row"}, [None]),
        (41, {}, [None]),
        (41, {"seeds": "row", "published_quirks": True}, [0]),
    ],
)
def test_a_redraw_can_use_the_seed_of_its_image(
    seed: int | None, settings: dict[str, Any], expected: list[int | None], tmp_path: Path
) -> None:
    artist, asked = Seeing(), row(False, seed=seed)
    samples(critic_reward(tmp_path, artist, Ten(), **settings), (answer(False), asked))
    own = [row_redraw_seed(asked, number, 0) for number in range(2)]
    assert artist.seeds == [own[number] if one is None else one for number, one in enumerate(expected)]


def test_an_option_redraws_incorrectly_rejected_images(tmp_path: Path) -> None:
    judge = critic_reward(tmp_path, Artist(), Taste(lambda: Score(semantics=0, quality=5)), redraw="refused")
    accepted, refused = samples(judge, (answer(True), row(True)), (answer(False), row(True)))
    assert not accepted.redrawn and refused.redrawn
    assert accepted.overall == pytest.approx(0.8)
    assert refused.overall == pytest.approx(0.5 + 0.5 * 0.2 * 0.25)


def _dies(prompt: str) -> None:
    raise ZeroDivisionError(prompt)


@pytest.mark.parametrize(
    ("settings", "overall"), [({}, None), ({"on_failure": "neutral"}, 0.8), ({"published_quirks": True}, 0.8)]
)
def test_failures_are_masked(settings: dict[str, Any], overall: float | None, tmp_path: Path) -> None:
    judge = critic_reward(tmp_path, Artist(_dies), Ten(), **settings)
    failed, other = samples(judge, (answer(False), row(False)), (answer(True), row(True)))
    assert failed.fault and other.overall == pytest.approx(0.8)
    assert failed.overall == (overall if overall is None else pytest.approx(overall))


def test_several_redraws_are_averaged_and_a_zero_step_weight_generates_none(tmp_path: Path) -> None:
    artist, idle, asked = Seeing(), Artist(), (answer(False), row(False))
    (sample,) = samples(critic_reward(tmp_path, artist, Ten(), draws=3), asked)
    assert len(set(artist.seeds)) == 3 and sample.terms["semantic"] == pytest.approx(0.8)
    (sample,) = samples(critic_reward(tmp_path, idle, Ten(), **NO_STEPS), asked)
    assert idle.prompts == [] and sample.overall == pytest.approx(0.6)


def test_the_reward_accepts_the_trainers_call(tmp_path: Path) -> None:
    judge = critic_reward(tmp_path, Artist(_dies), Ten())
    judge.rollouts = tmp_path / "rollouts"
    texts = [answer(True), answer(False), answer(False)]
    rows = [row(True), row(True), row(False)]
    logged: dict[str, float] = {}
    values = asyncio.run(
        judge(
            completion_ids=[[ord(letter) for letter in text] for text in texts],
            row=[one.line() for one in rows],
            trainer_state=SimpleNamespace(global_step=4),
            log_metric=logged.__setitem__,
            prompts=["?"] * 3,
        )
    )
    assert values[:2] == pytest.approx([0.8, 0.7]) and values[2] is None
    assert logged["redraw/failed"] == 1.0 and logged["verdict/true_recall"] == 0.5
    assert logged["reward/overall"] == pytest.approx(0.75) and logged["reward/spread"] == pytest.approx(0.05)
    assert logged["reward/dead"] == 0.0 and not any(math.isnan(value) for value in logged.values())
    lines = (tmp_path / "rollouts" / "step_000004.jsonl").read_text().splitlines()
    assert [json.loads(line)["verdict"] for line in lines] == [True, False, False]


def test_rounding_does_not_make_a_group_alive() -> None:
    rounded = [0.1 + 0.2, 0.3, 0.3, 0.3]
    assert rounded[0] != rounded[1]
    found = spread([*rounded, 0.5, 0.7], [*"aaaa", *"bb"])
    assert found["reward/dead"] == 0.5 and found["reward/spread"] == pytest.approx(0.05)
    # Answers that are left out, and groups of one answer, are neither dead nor alive.
    assert spread([0.3, None, 0.3, 0.9], [*"aaab"])["reward/dead"] == 1.0
    assert all(math.isnan(value) for value in spread([0.3, None], [*"ab"]).values())


def test_names_are_the_same_for_every_batch() -> None:
    one = Sample(answer="", origin_prompt="", truth=True, verdict=None)
    assert measures([one], BatchCounts()).keys() == measures([], BatchCounts()).keys()


@pytest.mark.parametrize("verdict", [True, False])
@pytest.mark.parametrize(
    ("right", "wrong", "warned"), [(1, 9, False), (9, 1, False), (3, 7, True), (7, 3, True)]
)
def test_a_constant_verdict(right: int, wrong: int, warned: bool, verdict: bool, tmp_path: Path) -> None:
    judge = critic_reward(tmp_path, Artist(), Ten(), **NO_STEPS)
    said = [(answer(verdict), one) for one in ([row(True)] * right + [row(False)] * wrong) * 7]
    samples(judge, *said[: MIN_VERDICTS - 1])
    assert judge.warning is None, "too few"
    samples(judge, *said[MIN_VERDICTS - 1 :])
    assert (judge.warning is not None) is warned
    if warned:
        assert f"it accepts {verdict:.0%} of the last 70 images" in str(judge.warning)
        samples(judge, *((answer(not verdict), row(True)) for _ in range(MIN_VERDICTS // 4)))
        assert judge.warning is None
