"""Scores the images of runs in parallel before the runs are read, since a judge takes seconds per image.

Scores are cached immediately, so that an interrupted call loses nothing; reading the runs calls no scorer. An
image without a score is recorded, and scored again by the next call. A judge that is unavailable, or whose
answers cannot be parsed at all, stops the call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ....backend.errors import ChatError, InterleaveError, PictureError, ScorerError, SettingsError
from ....backend.pictures import Picture
from ....backend.scorers import Scorer, open_scorer
from ....backend.types import Attempt, Score, Trajectory
from ...content_cache import ContentCache, key_of
from ..executors import CancelToken, Executor, LocalCancelToken
from .repeated_scorer import MATCH_SIZE, RepeatedScorer, score_in_full

GIVE_UP = 5
"""Consecutive images at which a judge may fail."""
UNREADABLE = 20
"""Images that may fail before the first score; a judge with other answers would fail at all images."""
SHOWN_EVERY = 200
OpenScorer = Callable[[], Scorer]


@dataclass(frozen=True)
class ImageToScore:
    """An image to score, identified by `key`.

    Between processes it is sent as PNG, or as a `fault` if it cannot be read.
    """

    key: str
    before: Picture | None
    after: Picture
    instruction: str
    fault: str = ""

    def __reduce__(self) -> tuple[Any, ...]:
        try:
            before = self.before.png() if self.before else None
            return _unpacked, (self.key, before, self.after.png(), self.instruction)
        except PictureError as error:
            return ImageToScore, (self.key, None, Picture.white((1, 1)), self.instruction, str(error))


def _unpacked(key: str, before: bytes | None, after: bytes, instruction: str) -> ImageToScore:
    shown = Picture.stored(before, "The image before") if before else None
    return ImageToScore(key, shown, Picture.stored(after, "The image"), instruction)


class ScoreReply(NamedTuple):
    """A score, with the numbers behind it if there are any, or an error."""

    score: Score | None = None
    numbers: dict[str, Any] | None = None
    error: tuple[type[InterleaveError], str, str] | None = None


@dataclass(frozen=True)
class OpenJudge:
    """Opens a scorer by name, to be called `repeats` times per image; can be sent to other processes."""

    name: str
    repeats: int = 1
    match_size: bool = False

    def __call__(self) -> Scorer:
        """Open the scorer.

        Raises:
            SettingsError: The scorer does not exist.
            ChatError: The judge's model cannot be used.
        """
        return RepeatedScorer(open_scorer(self.name), self.repeats, self.match_size)


@dataclass(frozen=True)
class ScoreImages:
    """Job that opens the scorer and scores images."""

    open_scorer: OpenScorer

    def open(self, stop: CancelToken) -> Callable[[ImageToScore], ScoreReply]:
        """Open the scorer and return a function that scores an image.

        Raises:
            SettingsError: The scorer does not exist.
            ChatError: The judge's model cannot be used.
        """
        scorer = self.open_scorer()

        def score(page: ImageToScore) -> ScoreReply:
            if page.fault:
                return ScoreReply(error=(PictureError, page.fault, ""))
            try:
                return ScoreReply(*score_in_full(scorer, page.before, page.after, page.instruction))
            except (ScorerError, ChatError, PictureError) as error:
                known = (ScorerError, ChatError, PictureError)
                kind = next(kind for kind in known if isinstance(error, kind))
                return ScoreReply(error=(kind, error.message, error.hint))

        return score


def score_in_run(trajectory: Trajectory, attempt: Attempt, scorer: str | None) -> Score | None:
    """Return the score that a run already has for an attempt.

    Scores of the run's own scorer (`run --scorer`) are not mixed with those of another one.

    Args:
        trajectory: The run.
        attempt: The attempt.
        scorer: Identity of the scorer that scores the other images; None: none does.
    """
    own = trajectory.identities.scorer
    # The run's scorer is shown every image at the size of its source.
    return attempt.score if not own or scorer in (None, f"{own}|{MATCH_SIZE}") else None


@dataclass
class RunScores:
    """Scores of a scorer, from this call and earlier ones."""

    identity: str
    cache: ContentCache
    _asked: set[str] = field(default_factory=set)
    _failed: set[str] = field(default_factory=set)
    _damaged: dict[str, str] = field(default_factory=dict)
    _answered: bool = False

    def ask(
        self,
        trajectories: Iterable[Trajectory],
        open_scorer: OpenScorer,
        executor: Executor,
        log: Callable[[str], None] = print,
    ) -> None:
        """Score the images that have no score yet.

        Raises:
            ChatError: The judge failed GIVE_UP times in a row, which is an outage.
            ScorerError: None of the first UNREADABLE images got a score.
            SettingsError: A worker process died.
        """
        unanswered, stop, first = 0, LocalCancelToken(), ""
        pages = self._without_score(trajectories)
        for done in executor.map(ScoreImages(open_scorer), pages, lambda page: page.key, stop):
            said = done.result
            if said is None:
                raise SettingsError(
                    f"An image could not be scored: {done.lost}.", "Use fewer parallel calls."
                )
            if said.score is None:
                kind, message, hint = said.error or (ScorerError, "The scorer returned no score.", "")
                if kind is PictureError:
                    self._damaged[done.key] = message
                    continue
                self._failed.add(done.key)
                first = first or message
                unanswered = unanswered + 1 if kind is ChatError else unanswered
                no_form = kind is ScorerError and not self._answered and len(self._failed) >= UNREADABLE
                if unanswered >= GIVE_UP or no_form:
                    raise kind(message, hint=hint)
                continue
            unanswered, self._answered = 0, True
            self.cache.keep_score(done.key, said.score)
            if said.numbers:
                self.cache.keep_text(done.key, json.dumps(said.numbers))
            self._asked.add(done.key)
            if len(self._asked) % SHOWN_EVERY == 0:
                log(f"{len(self._asked)} images scored")
        if first:
            log(f"{len(self._failed)} images without a score. The first error: {first}")

    def of(
        self, before: Picture | None, after: Picture, instruction: str
    ) -> tuple[Score | None, dict[str, Any] | None, bool]:
        """Return (score of an image or None, numbers behind it, whether it is new in this call).

        Raises:
            PictureError: The image cannot be read.
        """
        key = self._key(before, after, instruction)
        if key in self._damaged:
            raise PictureError(self._damaged[key])
        score = None if key in self._failed else self.cache.score(key)
        numbers = self.cache.text(key) if score else None
        is_new = key in self._asked
        self._asked.discard(key)
        return score, json.loads(numbers) if numbers else None, is_new

    def _without_score(self, trajectories: Iterable[Trajectory]) -> Iterator[ImageToScore]:
        known: set[str] = set()
        for trajectory in trajectories:
            for result in trajectory.results:
                for attempt in result.attempts:
                    if attempt.image is None or not result.step.prompt:
                        continue
                    if score_in_run(trajectory, attempt, self.identity) is not None:
                        continue
                    key = self._key(attempt.source, attempt.image, result.step.prompt)
                    if key in known:
                        continue
                    known.add(key)
                    if self.cache.score(key) is None:
                        yield ImageToScore(key, attempt.source, attempt.image, result.step.prompt)
                    else:
                        self._answered = True

    def _key(self, before: Picture | None, after: Picture, instruction: str) -> str:
        return key_of(
            "from runs", self.identity, before.digest if before else None, after.digest, instruction
        )
