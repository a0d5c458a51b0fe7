"""Generating and scoring a batch: everything once and cached; failures only affect their own sample."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.reward_fakes import WHITE, Artist, ManyArtist, Taste

from interleave_thinker import DrawRefused, Generator, GeneratorError, Picture, Score, Scorer, SettingsError
from interleave_thinker.training.content_cache import ContentCache, key_of
from interleave_thinker.training.reward.bounded_calls import MIN_SEEN, Failures
from interleave_thinker.training.reward.redrawer import (
    BatchCounts,
    DrawingSettings,
    Outcome,
    Redraw,
    Redrawer,
)


def ask(prompt: str, seed: int = 1) -> Redraw:
    return Redraw(WHITE, "a boat", prompt, seed)


def run(
    cache: Path, artist: Generator, taste: Scorer, redraws: Sequence[Redraw], **settings: float
) -> tuple[list[Outcome], BatchCounts, Redrawer]:
    engine = Redrawer(artist, taste, ContentCache(cache), DrawingSettings(**settings))  # type: ignore[arg-type]
    outcomes, counts = asyncio.run(engine.score_all(redraws))
    return outcomes, counts, engine


def test_equal_requests_are_sent_once_and_cached(tmp_path: Path) -> None:
    artist, taste = Artist(), Taste()
    redraws = [ask("red"), ask("blue"), ask("red"), ask("red", seed=2), ask("red")]
    outcomes, counts, _ = run(tmp_path / "c.sqlite", artist, taste, redraws)
    assert sorted(artist.prompts) == ["blue", "red", "red"]
    assert outcomes[0] == outcomes[2] == outcomes[4]
    assert (counts.asked, counts.drawn, counts.failed) == (5, 3, 0) and counts.served == pytest.approx(0.4)
    later_artist, later_taste = Artist(), Taste()
    later, again, _ = run(tmp_path / "c.sqlite", later_artist, later_taste, redraws)
    assert [outcome.score for outcome in later] == [outcome.score for outcome in outcomes]
    assert later_artist.prompts == [] and later_taste.scored == 0 and again.served == 1.0


def test_several_images_are_generated_in_one_call(tmp_path: Path) -> None:
    artist = ManyArtist()
    redraws = [ask(f"boat {number}") for number in range(7)]
    outcomes, counts, _ = run(tmp_path / "c", artist, Taste(), redraws, draw_batch=3)
    assert artist.sizes == [3, 3]  # the seventh alone is an ordinary single call
    assert all(outcome.score for outcome in outcomes) and counts.drawn == 7
    one_by_one = run(tmp_path / "d", Artist(), Taste(), redraws)[0]
    assert [outcome.score for outcome in outcomes] == [outcome.score for outcome in one_by_one]


class Unseeded(Artist):
    """Returns a different image every time, like a hosted model."""

    repeatable = False

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        return super().draw(prompt, source, len(self.prompts))


def test_unrepeatable_images_are_neither_merged_nor_cached(tmp_path: Path) -> None:
    redraws = [ask("red"), ask("red"), ask("red")]
    for _ in range(2):
        artist = Unseeded()
        outcomes, counts, _ = run(tmp_path / "c", artist, Taste(), redraws)
        assert counts.drawn == 3 and len(artist.prompts) == 3
        assert len({outcome.picture.digest for outcome in outcomes if outcome.picture}) == 3


class Several(Artist):
    """Generates three images at a time, and only together."""

    draws_at_once = 3

    def __init__(self) -> None:
        super().__init__()
        self.meeting = threading.Barrier(3)

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        self.meeting.wait(30)
        return super().draw(prompt, source, seed)


def test_several_services_generate_in_parallel(tmp_path: Path) -> None:
    redraws = [ask(f"boat {number}") for number in range(6)]
    outcomes, counts, _ = run(tmp_path / "c", Several(), Taste(), redraws)
    assert counts.drawn == 6 and all(outcome.score for outcome in outcomes)


def test_failed_attempts_count_towards_the_limit_of_images(tmp_path: Path) -> None:
    def fault(prompt: str) -> None:
        if prompt == "never":
            raise GeneratorError("no")

    few = [ask("red"), ask("red"), ask("never")]
    _, _, engine = run(tmp_path / "c", Artist(fault), Taste(), few, tries=2, max_draws=4)
    assert engine.draws == 3 and engine.problem() is None, "red is generated only once"
    _, _, engine = run(tmp_path / "c", Artist(fault), Taste(), few, tries=4, max_draws=4)
    assert engine.draws == 4 and "max_draws is 4" in (engine.problem() or "")


def test_a_rejected_request_is_not_retried(tmp_path: Path) -> None:
    def refuse(prompt: str) -> None:
        raise DrawRefused("moderation")

    artist = Artist(refuse)
    outcomes, _, _ = run(tmp_path / "c", artist, Taste(), [ask("red")], tries=3)
    assert artist.prompts == ["red"] and "moderation" in outcomes[0].fault


def _dies_at(word: str) -> Callable[[str], None]:
    def fault(prompt: str) -> None:
        if word in prompt:
            raise ZeroDivisionError("out of paint")

    return fault


@pytest.mark.parametrize("kind", [Artist, ManyArtist])
def test_a_crash_costs_only_its_own_sample(tmp_path: Path, kind: type[Artist]) -> None:
    artist = kind(_dies_at("bad"))
    outcomes, counts, engine = run(
        tmp_path / "c", artist, Taste(), [ask("good"), ask("bad"), ask("fine")], tries=3
    )
    assert [outcome.score is None for outcome in outcomes] == [False, True, False]
    assert "out of paint" in outcomes[1].fault and counts.failed == 1
    assert counts.served == 0.0, "a failed image does not count as a cache hit"
    # Three attempts of its own, and one as part of a call for several images.
    assert artist.prompts.count("bad") == (4 if kind is ManyArtist else 3) and engine.problem() is None
    assert artist.prompts.count("good") <= 2


def test_a_temporary_failure_is_retried(tmp_path: Path) -> None:
    for prompt, faults in (("boat", [GeneratorError("busy")]), ("sun", [ConnectionError("judge is busy")])):

        def fault(*given: str, faults: list[Exception] = faults) -> None:
            if faults:
                raise faults.pop()

        artist, taste = (Artist(fault), Taste()) if prompt == "boat" else (Artist(), Taste(fault))
        (outcome,), counts, _ = run(tmp_path / "c", artist, taste, [ask(prompt)])
        assert outcome.score is not None and counts.repeated == 1


def test_a_scorer_that_fails_is_tried_again_a_bounded_number_of_times(tmp_path: Path) -> None:
    def always() -> None:
        raise ConnectionError("judge is down")

    taste, artist = Taste(always), Artist()
    outcomes, counts, engine = run(tmp_path / "d", artist, taste, [ask("boat"), ask("sun")], tries=3)
    assert [outcome.score for outcome in outcomes] == [None, None] and taste.scored == 6
    assert "judge is down" in outcomes[0].fault and counts.failed == 2
    assert (engine.problem(at_end=True) or "").startswith("2 of the last 2 redraws failed")
    # Images are cached: when the judge is back, only the scores are computed.
    later = Artist()
    outcomes, counts, _ = run(tmp_path / "d", later, Taste(), [ask("boat"), ask("sun")])
    assert all(outcome.score for outcome in outcomes) and later.prompts == [] and counts.served == 1.0


def test_a_hanging_call_is_abandoned_and_the_rest_fails_at_once(tmp_path: Path) -> None:
    let_go = threading.Event()

    def fault(prompt: str) -> None:
        if prompt == "hang":
            let_go.wait(120)

    redraws = [ask("fine"), ask("hang"), *(ask(f"boat {n}") for n in range(5))]
    cache = ContentCache(tmp_path / "c")
    engine = Redrawer(Artist(fault), Taste(), cache, DrawingSettings(draw_seconds=1.5))
    outcomes, counts = asyncio.run(engine.score_all(redraws))
    assert outcomes[0].score is not None and "did not respond within" in outcomes[1].fault
    assert counts.failed == 6 and all("blocked by" in outcome.fault for outcome in outcomes[2:])
    let_go.set()
    deadline = time.monotonic() + 60
    while engine._draw_calls.stuck and time.monotonic() < deadline:
        time.sleep(0.01)
    later, _ = asyncio.run(engine.score_all(redraws[2:]))
    assert all(outcome.score for outcome in later)


def test_a_scorer_that_hangs_leaves_other_slots_free(tmp_path: Path) -> None:
    let_go, calls = threading.Event(), []

    def fault() -> None:
        calls.append(1)
        if len(calls) == 1:
            let_go.wait(120)

    asked, limits = [ask(f"boat {n}") for n in range(4)], {"score_seconds": 1.0, "parallel_scores": 2}
    outcomes, _, _ = run(tmp_path / "c", Artist(), Taste(fault), asked, **limits)
    let_go.set()
    assert sum(outcome.score is None for outcome in outcomes) == 1


def test_an_image_is_scored_at_the_size_of_its_source(tmp_path: Path) -> None:
    drawn = Picture.white((80, 60))
    artist, taste = Artist(lambda prompt: drawn), Taste()
    small = Picture.white((40, 40))
    redraws = [Redraw(before, "a boat", "red", 1) for before in (small, drawn, None)]
    outcomes, _, _ = run(tmp_path / "c", artist, taste, redraws)
    assert taste.sizes == [(40, 40), (80, 60), (80, 60)]
    assert [outcome.picture for outcome in outcomes] == [drawn] * 3
    # A cached score of the original image is not used for the scaled one.
    kept = ContentCache(tmp_path / "d")
    kept.keep_score(
        key_of("score", taste.identity, "a boat", small.digest, drawn.digest), Score(semantics=0, quality=0)
    )
    kept.close()
    again = Taste()
    run(tmp_path / "d", artist, again, redraws[:1])
    assert again.sizes == [(40, 40)]


def test_invalid_results_are_failures(tmp_path: Path) -> None:
    outcomes, _, _ = run(tmp_path / "c", Artist(lambda prompt: "a picture"), Taste(), [ask("boat")])
    assert outcomes[0].score is None and "objects for" in outcomes[0].fault
    outcomes, _, _ = run(tmp_path / "d", Artist(), Taste(lambda: [WHITE]), [ask("boat")])
    assert outcomes[0].score is None and "instead of a Score" in outcomes[0].fault


def test_many_failures_are_a_problem_and_few_only_at_the_end() -> None:
    def problems(outcomes: list[bool], most: float) -> tuple[bool, bool]:
        failures = Failures("redraws", most)
        for failed in outcomes:
            failures.add(failed, "out of paint")
        found = [failures.problem(at_end) for at_end in (False, True)]
        assert all(one is None or "out of paint" in one for one in found)
        return found[0] is not None, found[1] is not None

    assert problems([False] * MIN_SEEN + [True] * MIN_SEEN, 0.5) == (False, False)
    assert problems([False] * MIN_SEEN + [True] * (MIN_SEEN + 1), 0.5) == (True, True)
    assert problems([True], 0.3) == (False, True)
    assert problems([True] + [False] * 3, 0.3) == problems([], 0.3) == (False, False)


def test_the_cache_survives_damage_and_names_a_foreign_file(tmp_path: Path) -> None:
    cache = ContentCache(tmp_path / "c")
    for value in ("read", '{"semantics": 1}'):
        cache.keep_text("b", value)
        assert cache.text("b") == value
        cache._store("UPDATE scores SET score = replace(score, 'e', 'd') WHERE key = ?", "text b")
        assert cache.text("b") is None, "a changed letter"
    cache._store("UPDATE scores SET score = ? WHERE key = ?", "an earlier version's", "text b")
    assert cache.text("b") == "an earlier version's"
    cache.keep_picture("a", WHITE)
    cache.keep_score("a", Score(semantics=1, quality=2))
    cache._store("UPDATE pictures SET png = ?", b"no image")
    cache._store("UPDATE scores SET score = ?", '{"semantics": 11, "quality": 1}')
    assert cache.picture("a") is None and cache.score("a") is None
    cache.keep_picture("a", WHITE)
    assert cache.picture("a") == WHITE
    foreign = tmp_path / "foreign"
    foreign.write_text("this is not a database, however long it may be" * 100)
    with pytest.raises(SettingsError, match="delete the file"):
        ContentCache(foreign)


def test_cache_keys_distinguish_their_parts() -> None:
    parts = [("a", "b"), ("ab", ""), ("", "ab"), ("a", None), ("a", ""), ("a", "None")]
    assert len({key_of(*some) for some in parts}) == len(parts)
