"""The reward of a batch of answers: which images are redrawn, what is left out, what is logged."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image
from support.reward_fakes import Artist, Taste

from interleave_thinker.backend.core.answers.reading import write_verdict
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.types import Score, Verdict
from interleave_thinker.training.content_cache import ContentCache
from interleave_thinker.training.reward.critic_reward import (
    MIN_VERDICTS,
    CriticReward,
    RewardSettings,
    Sample,
    measures,
)
from interleave_thinker.training.reward.redrawer import BatchCounts, DrawingSettings, Redrawer
from interleave_thinker.training.reward.rollout_reward import RolloutReading
from interleave_thinker.training.rows.rl import CriticRlRow, Evaluation, row_redraw_seed


class Seeing(Artist):
    """Records the seeds it generated with."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.seeds: list[int] = []

    def draw(self, prompt, source, seed):
        self.seeds.append(seed)
        return super().draw(prompt, source, seed)


class Ten(Taste):
    """Scores everything as perfect."""

    def score(self, before, after, instruction):
        super().score(before, after, instruction)
        return Score(semantics=10, quality=10)


def answer(success: bool, refined: str = "a red boat") -> str:
    return write_verdict(Verdict(success=success, refined_prompt=refined, reasoning="so"))


def row(success: bool, name: str = "after.png") -> CriticRlRow:
    score = 10 if success else 4
    return CriticRlRow(
        origin_prompt="a boat",
        rewritten_prompt="a boat again",
        edited_image_path=name,
        evaluation=Evaluation(success=success, semantics=score, quality=score),
    )


def reward(folder: Path, artist: Artist, taste: Taste, **settings) -> CriticReward:
    Image.new("RGB", (32, 32)).save(folder / "after.png")
    drawing = DrawingSettings(tries=1)
    engine = Redrawer(artist, taste, ContentCache(folder / "cache"), drawing)
    reading = RolloutReading(folder, lambda ids: "".join(map(chr, ids)))
    return CriticReward(engine, RewardSettings(**settings), reading)


def samples(judge: CriticReward, *pairs: tuple[str, CriticRlRow]) -> list[Sample]:
    return asyncio.run(judge.judged([one for one, _ in pairs], [one for _, one in pairs]))[0]


def test_published_rewards_of_every_case(tmp_path: Path) -> None:
    artist = Seeing()
    judge = reward(tmp_path, artist, Ten())
    found = samples(
        judge,
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


@pytest.mark.parametrize("color", ["white", "red"])
def test_a_white_source_image_is_redrawn_from_text(tmp_path: Path, color: str) -> None:
    Image.new("RGB", (32, 32), color).save(tmp_path / "before.png")
    sources: list[Picture | None] = []

    class Watching(Artist):
        def draw(self, prompt, source, seed):
            sources.append(source)
            return super().draw(prompt, source, seed)

    class Judge(Ten):
        def score(self, before, after, instruction):
            sources.append(before)
            return super().score(before, after, instruction)

    asked = row(False).model_copy(update={"origin_image_path": "before.png"})
    samples(reward(tmp_path, Watching(), Judge()), (answer(False), asked))
    expected = None if color == "white" else Picture.open(tmp_path / "before.png")
    assert sources == [expected, expected]


def test_a_redraw_can_use_the_seed_of_its_image(tmp_path: Path) -> None:
    seeded = row(False).model_copy(update={"seed": 41})
    artist = Seeing()
    samples(reward(tmp_path, artist, Ten(), seeds="row", draws=2), (answer(False), seeded))
    assert artist.seeds == [41, row_redraw_seed(seeded, 1, 0)]  # further images need their own seeds
    for name, asked, settings in (("a", row(False), {"seeds": "row"}), ("b", seeded, {})):
        (tmp_path / name).mkdir()
        artist = Seeing()
        samples(reward(tmp_path / name, artist, Ten(), **settings), (answer(False), asked))
        assert artist.seeds == [row_redraw_seed(asked, 0, 0)] and artist.seeds != [41]
    (tmp_path / "c").mkdir()
    artist = Seeing()
    quirks = reward(tmp_path / "c", artist, Ten(), seeds="row", published_quirks=True)
    samples(quirks, (answer(False), seeded))
    assert artist.seeds == [0]


def test_an_option_redraws_incorrectly_rejected_images(tmp_path: Path) -> None:
    judge = reward(tmp_path, Artist(), Taste(lambda: Score(semantics=0, quality=5)), redraw="refused")
    accepted, refused = samples(judge, (answer(True), row(True)), (answer(False), row(True)))
    assert not accepted.redrawn and refused.redrawn
    assert accepted.overall == pytest.approx(0.8)
    assert refused.overall == pytest.approx(0.5 + 0.5 * 0.2 * 0.25)


def _dies(prompt: str) -> None:
    raise ZeroDivisionError(prompt)


def test_failures_are_masked_or_neutral(tmp_path: Path) -> None:
    pairs = (answer(False), row(False)), (answer(True), row(True))
    masked, other = samples(reward(tmp_path, Artist(_dies), Ten()), *pairs)
    assert masked.overall is None and masked.fault and other.overall == pytest.approx(0.8)
    (tmp_path / "b").mkdir()
    neutral, _ = samples(reward(tmp_path / "b", Artist(_dies), Ten(), on_failure="neutral"), *pairs)
    assert neutral.overall == pytest.approx(0.8) and neutral.fault


def test_published_quirks(tmp_path: Path) -> None:
    artist = Seeing()
    judge = reward(tmp_path, artist, Ten(), published_quirks=True)
    samples(judge, (answer(False, "red / blue"), row(False)))
    assert artist.prompts == ["red/blue"] and artist.seeds == [0]
    (tmp_path / "b").mkdir()
    (failed,) = samples(
        reward(tmp_path / "b", Artist(_dies), Ten(), published_quirks=True), (answer(False), row(False))
    )
    assert failed.overall == pytest.approx(0.8)


def test_several_redraws_are_averaged_and_a_zero_step_weight_generates_none(tmp_path: Path) -> None:
    artist = Seeing()
    (sample,) = samples(reward(tmp_path, artist, Ten(), draws=3), (answer(False), row(False)))
    assert len(set(artist.seeds)) == 3 and sample.terms["semantic"] == pytest.approx(0.8)
    (tmp_path / "b").mkdir()
    idle = Artist()
    (sample,) = samples(
        reward(tmp_path / "b", idle, Ten(), semantic_weight=0, quality_weight=0), (answer(False), row(False))
    )
    assert idle.prompts == [] and sample.overall == pytest.approx(0.6)


def test_the_reward_accepts_the_trainers_call(tmp_path: Path) -> None:
    judge = reward(tmp_path, Artist(_dies), Ten())
    judge.rollouts = tmp_path / "rollouts"
    texts = [answer(True), answer(False), answer(False)]
    rows = [row(True), row(True), row(False)]
    logged: dict[str, float] = {}
    values = asyncio.run(
        judge(
            completion_ids=[[ord(letter) for letter in text] for text in texts],
            row=[one.model_dump_json(exclude_none=True) for one in rows],
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


def test_names_are_the_same_for_every_batch() -> None:
    one = Sample(answer="", origin_prompt="", truth=True, verdict=None)
    assert measures([one], BatchCounts()).keys() == measures([], BatchCounts()).keys()


def test_a_leaning_critic_is_noticed(tmp_path: Path) -> None:
    judge = reward(tmp_path, Artist(), Ten(), semantic_weight=0, quality_weight=0)
    half = [(answer(False), row(number % 2 == 0)) for number in range(MIN_VERDICTS)]
    samples(judge, *half[:-1])
    assert judge.leaning is None
    samples(judge, half[-1])
    assert judge.leaning is not None and "0% of the last" in judge.leaning
    samples(judge, *((answer(True), row(True)) for _ in range(MIN_VERDICTS // 4)))
    assert judge.leaning is None


@pytest.mark.parametrize("verdict", [True, False])
@pytest.mark.parametrize(
    ("labels", "warned"), [((1, 9), False), ((9, 1), False), ((3, 7), True), ((7, 3), True)]
)
def test_a_constant_verdict_on_one_sided_labels_is_not_a_collapse(
    tmp_path: Path, verdict: bool, labels: tuple[int, int], warned: bool
) -> None:
    judge = reward(tmp_path, Artist(), Ten(), semantic_weight=0, quality_weight=0)
    right, wrong = labels
    rows = [row(True)] * right + [row(False)] * wrong
    samples(judge, *((answer(verdict), one) for one in rows * (MIN_VERDICTS // 10 + 1)))
    assert (judge.warning is not None) is warned
