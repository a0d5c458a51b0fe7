"""Generates and scores a batch of refined prompts; a failure has no score but a reason.

Generation and scoring overlap: an image is scored as soon as it is available. It is scored at the size of the
image before it, as in the published system, since a judge takes different sizes for a change. Identical
requests of a batch are generated once, and everything is cached by content (content_cache.py), unless the
generator has no seed: then each image is unique. A generator with batches (`draws_many`) gets several prompts
per call. A generator with several services gets enough single calls to keep them busy, since one failure must
not cost the others their images. Errors are retried a limited number of times, timeouts never, since the
service is still working on the request.

With `take_turns`, the models share one GPU (`Card`). A rollout then has five phases: answer, move, generate,
move, score. A batch is generated completely before its first image is scored; images and scores are the same.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ...backend.core.errors import (
    Cancelled,
    GeneratorError,
    InterleaveError,
    ScorerError,
    SettingsError,
    boundary,
)
from ...backend.core.pictures import Picture
from ...backend.core.seams.adoption import adopt
from ...backend.core.seams.generator import Generator
from ...backend.core.types import Score
from ...backend.models.scorers import Scorer
from ..content_cache import ContentCache, SingleFlight, key_of
from .bounded_calls import BoundedCalls, CallTimeout, Failures


class DrawingSettings(BaseModel):
    """Settings of generating and scoring images during training."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    draw_batch: int = Field(
        default=16, ge=1, description="Images per call, for generators that support batches."
    )
    parallel_draws: int = Field(
        default=1,
        ge=1,
        description="Images generated at the same time. With several services the value is raised to use all "
        "of them.",
    )
    draw_seconds: float = Field(
        default=120.0, gt=0, description="Timeout for generating one image, in seconds."
    )
    take_turns: bool = Field(
        default=False,
        description="Share one GPU: trained model, generator and judge use it in turns and wait in RAM in "
        "between.",
    )
    max_draws: int | None = Field(
        default=None,
        ge=1,
        description="Training stops, after the current batch, when a process has requested this many images, "
        "including failed attempts. Default: no limit.",
    )
    parallel_scores: int = Field(
        default=1,
        ge=1,
        description="Images scored at the same time. Use more than 1 for a judge on a server.",
    )
    score_seconds: float = Field(
        default=120.0, gt=0, description="Timeout for scoring one image, in seconds."
    )
    tries: int = Field(
        default=2, ge=1, le=10, description="Attempts to generate or score an image, including the first."
    )
    max_failures: float = Field(
        default=0.3,
        ge=0,
        le=1,
        description="Training stops if more than this share of the recent redraws failed.",
    )

    def longest(self, redraws: int) -> float:
        """Return the seconds after which this many redraws are generated and scored, or have failed.

        Images of a failed batch are generated once more one by one.
        """
        batch = min(self.draw_batch, max(1, redraws))
        first = math.ceil(math.ceil(redraws / batch) / self.parallel_draws) * batch
        draws = first + math.ceil(redraws / self.parallel_draws) * self.tries
        scores = math.ceil(redraws / self.parallel_scores) * self.tries
        return draws * self.draw_seconds + scores * self.score_seconds


@dataclass
class BatchCounts:
    """Counters of one batch.

    Attributes:
        asked: Requested redraws.
        drawn: Generated images.
        not_drawn: Redraws without an image.
        scored: Scored images.
        failed: Failed redraws.
        repeated: Retries.
        draw_seconds: Seconds of generation, summed over calls.
        score_seconds: Seconds of scoring, summed over calls.
        seconds: Wall-clock seconds.
        faults: Reasons of the failures.
    """

    asked: int = 0
    drawn: int = 0
    not_drawn: int = 0
    scored: int = 0
    failed: int = 0
    repeated: int = 0
    draw_seconds: float = 0.0
    score_seconds: float = 0.0
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    def repeat(self) -> None:
        """Count a retry."""
        self.repeated += 1

    @property
    def served(self) -> float:
        """Share of the redraws whose image came from the cache or an identical request."""
        return 1.0 - (self.drawn + self.not_drawn) / self.asked if self.asked else 0.0


RETRY_SECONDS = 0.25
MAIN_MEMORY = "cpu"
Role = Literal["policy", "generator", "judge"]


class Card:
    """The GPU that trained model, generator and judge share: one of them has it, the others wait in RAM.

    A model is moved only when another one is needed, so a batch from the cache moves nothing. Outside of
    rewards the trained model has the GPU; after a failed move none has it. Models elsewhere (a service,
    another GPU) are not moved. `moves` counts how often each model was moved to the GPU.
    """

    def __init__(self, generator: Generator, scorer: Any) -> None:
        """Move generator and judge off the GPU they were opened on, as the trained model is loaded next."""
        from .base_judge import BaseJudge

        self.holder: Role | None = "policy"
        self._there: set[Role] = {"policy"}
        """Models that may have weights on the GPU: the holder, and those not moved off completely."""
        self.moves: Counter[Role] = Counter()
        self._movers: dict[Role, Callable[[bool], None]] = {}
        """Each moves a model to the GPU, or off it."""
        self._judge: Role = "policy" if isinstance(scorer, BaseJudge) else "judge"
        self._lock = threading.Lock()
        drawer = adopt(generator, Generator)
        if drawer.modules:
            self._movers["generator"] = mover(lambda: drawer.modules)
        judge: Any = scorer if hasattr(scorer, "offload") else getattr(scorer, "chat", None)
        if hasattr(judge, "offload"):
            # It moves to the GPU with its first question.
            self._movers["judge"] = lambda onto: None if onto else judge.offload()
        for move in self._movers.values():
            move(False)

    def begin(self, trainer: Any) -> None:
        """Include the trained model in the turns.

        Raises:
            SettingsError: It is trained on several GPUs.
        """
        if trainer.accelerator.num_processes > 1:
            raise SettingsError("take_turns supports only one GPU.", "Omit it when training on several GPUs.")
        self._movers["policy"] = mover(
            lambda: [trainer.accelerator.unwrap_model(trainer.model)],
            lambda: optimizer_tensors(trainer.optimizer),
        )

    def give_to(self, role: Role) -> None:
        """Give the GPU to a model; the others are moved off first.

        A scorer without weights of its own uses the trained model's place.
        """
        with self._lock:
            role = self._judge if role == "judge" else role
            if role == self.holder:
                return
            # No holder until the move is complete: a half-moved model must not count as ready.
            self.holder = None
            for other in sorted(self._there - {role}):
                self._offload(other)
            self._there.add(role)
            try:
                self._move(role, True)
            except BaseException:
                self._offload(role)
                raise
            self.holder = role
            self.moves[role] += 1

    def _move(self, role: Role, onto: bool) -> None:
        if role in self._movers:
            self._movers[role](onto)

    def _offload(self, role: Role) -> None:
        """Move a model off the GPU; if this fails, it is tried again before the next move."""
        self._move(role, False)
        self._there.discard(role)


def mover(
    modules: Callable[[], Sequence[Any]], tensors: Callable[[], Sequence[Any]] = tuple
) -> Callable[[bool], None]:
    """Return a function that moves torch modules and tensors to their present device, or to RAM."""
    import torch

    home = next(weight.device for module in modules() for weight in module.parameters())

    def move(onto: bool) -> None:
        device = home if onto else MAIN_MEMORY
        for module in modules():
            module.to(device)
        for tensor in tensors():
            tensor.data = tensor.data.to(device)
        if not onto:
            gc.collect()
            if home.type == "cuda":
                torch.cuda.empty_cache()
            elif home.type == "mps":
                torch.mps.empty_cache()

    return move


def optimizer_tensors(optimizer: Any) -> list[Any]:
    """Return the state tensors of an optimizer; there are none before its first step."""
    states = optimizer.state.values() if optimizer is not None else ()
    return [one for state in states for one in state.values() if hasattr(one, "device") and one.dim() > 0]


@dataclass(frozen=True)
class Redraw:
    """A refined prompt: generated from `before` (None: from text), scored against `original_prompt`.

    With `drawn`, this image is scored and none is generated.
    """

    before: Picture | None
    original_prompt: str
    prompt: str
    seed: int
    drawn: Picture | None = None


@dataclass(frozen=True)
class Outcome:
    """Result of a redraw: the score, or None with the reason."""

    score: Score | None
    picture: Picture | None = None
    fault: str = ""


class Redrawer:
    """Generates and scores redraws with one generator and one scorer, and counts the recent failures."""

    def __init__(
        self,
        generator: Generator,
        scorer: Scorer,
        cache: ContentCache,
        settings: DrawingSettings,
        card: Card | None = None,
    ) -> None:
        """Create a redrawer; `card` is the GPU shared with the trained model, if it is shared."""
        self.card = card
        self.generator = generator = adopt(generator, Generator)
        self.scorer = scorer
        self.cache, self.settings = cache, settings
        slots = max(settings.parallel_draws, generator.draws_at_once)
        self._draw_calls = BoundedCalls(f"The generator {generator.identity!r}", slots)
        self._repeatable = generator.repeatable
        self._unrepeated = itertools.count()
        self._counting = threading.Lock()
        self.draws = 0
        """Images requested from the generator, including failed attempts."""
        self._score_calls = BoundedCalls(f"The scorer {scorer.identity!r}", settings.parallel_scores)
        self._drawing: SingleFlight[Picture] = SingleFlight()
        self._scoring: SingleFlight[Score] = SingleFlight()
        self._failures = Failures("redraws", settings.max_failures)
        self._tasks: set[asyncio.Future[None]] = set()

    def problem(self, at_end: bool = False) -> str | None:
        """Return why training should stop, or None; `at_end`, after the last redraw, a few failures count."""
        most = self.settings.max_draws
        if most is not None and self.draws >= most:
            return f"{self.draws} images were requested and the limit of max_draws is {most}"
        return self._failures.problem(at_end)

    async def score_all(self, redraws: Sequence[Redraw]) -> tuple[list[Outcome], BatchCounts]:
        """Return an outcome for each redraw, in order, and the counters of the batch.

        Raises:
            Cancelled: The run was cancelled.
            SettingsError: The cache cannot be used.
        """
        started = time.monotonic()
        counts = BatchCounts(asked=len(redraws))
        try:
            pictures = self._start_drawing(redraws, counts)
            if self.card is not None:
                # The judge does not fit on the GPU before the generator has left it.
                await asyncio.gather(*pictures, return_exceptions=True)
            outcomes = await asyncio.gather(
                *(
                    self._outcome(redraw, picture, counts)
                    for redraw, picture in zip(redraws, pictures, strict=True)
                )
            )
        finally:
            if self.card is not None:
                self.card.give_to("policy")
        for outcome in outcomes:
            self._failures.add(outcome.score is None, outcome.fault)
            counts.not_drawn += outcome.picture is None
            if outcome.score is None:
                counts.failed += 1
                counts.faults.append(outcome.fault)
        counts.seconds = time.monotonic() - started
        return list(outcomes), counts

    def _start_drawing(self, redraws: Sequence[Redraw], counts: BatchCounts) -> list[asyncio.Future[Picture]]:
        """Return a future image for each redraw, and start to generate those that are not cached."""
        futures: list[asyncio.Future[Picture]] = []
        missing: list[tuple[str, Redraw]] = []
        for redraw in redraws:
            if redraw.drawn is not None:
                futures.append(asyncio.get_running_loop().create_future())
                futures[-1].set_result(redraw.drawn)
                continue
            key = self._draw_key(redraw)
            future, mine = self._drawing.claim(key)
            futures.append(future)
            if mine:
                cached = self.cache.picture(key) if self._repeatable else None
                if cached is None:
                    missing.append((key, redraw))
                else:
                    self._drawing.land(key, cached)
        size = self.settings.draw_batch if self.generator.draws_many else 1
        for start in range(0, len(missing), size):
            task = asyncio.ensure_future(self._draw(missing[start : start + size], counts))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return futures

    async def _draw(self, part: list[tuple[str, Redraw]], counts: BatchCounts) -> None:
        """Generate part of a batch and resolve its futures; a part that fails is retried one by one."""
        try:
            pictures = await self._drawn([redraw for _, redraw in part], counts)
            for (key, _), picture in zip(part, pictures, strict=True):
                if self._repeatable:
                    self.cache.keep_picture(key, picture)
        except GeneratorError as error:
            if len(part) == 1:
                self._drawing.fail(part[0][0], error)
                return
            # One prompt that cannot be generated must not cost the others their images.
            counts.repeated += len(part)
            await asyncio.gather(*(self._draw([single], counts) for single in part))
        except BaseException as error:
            for key, _ in part:
                self._drawing.fail(key, error)
            if not isinstance(error, (InterleaveError, CallTimeout)):
                raise
        else:
            counts.drawn += len(part)
            for (key, _), picture in zip(part, pictures, strict=True):
                self._drawing.land(key, picture)

    async def _drawn(self, redraws: Sequence[Redraw], counts: BatchCounts) -> list[Picture]:
        """Return the images of one call; a call for a single image is retried."""
        generator = self.generator

        def draw() -> list[Picture]:
            with boundary(GeneratorError, "The generator failed"):
                if self.card is not None:
                    self.card.give_to("generator")
                if len(redraws) == 1:
                    pictures = [
                        generator.draw(redraw.prompt, redraw.before, redraw.seed) for redraw in redraws
                    ]
                else:
                    pictures = generator.draw_many(
                        [redraw.prompt for redraw in redraws],
                        [redraw.before for redraw in redraws],
                        [redraw.seed for redraw in redraws],
                    )
                if len(pictures) != len(redraws) or not all(isinstance(p, Picture) for p in pictures):
                    raise GeneratorError(
                        f"The generator returned {len(pictures)} objects for {len(redraws)} prompt(s).",
                        "Its draw() and draw_many() must return one Picture per prompt.",
                    )
                return pictures

        def timed() -> list[Picture]:
            started = time.monotonic()
            with self._counting:
                self.draws += len(redraws)
            try:
                return draw()
            finally:
                counts.draw_seconds += time.monotonic() - started

        seconds = self.settings.draw_seconds * len(redraws)
        tries = self.settings.tries if len(redraws) == 1 else 1
        return await self._draw_calls.attempted(timed, seconds, tries, RETRY_SECONDS, counts.repeat)

    async def _outcome(
        self, redraw: Redraw, drawing: asyncio.Future[Picture], counts: BatchCounts
    ) -> Outcome:
        picture: Picture | None = None
        try:
            picture = after = await asyncio.shield(drawing)
            return Outcome(await self._score(redraw, after, counts), after)
        except (Cancelled, SettingsError):
            raise
        except (InterleaveError, CallTimeout) as error:
            return Outcome(None, picture, str(error))

    async def _score(self, redraw: Redraw, after: Picture, counts: BatchCounts) -> Score:
        after = after.scaled_to(redraw.before.size) if redraw.before else after
        before = redraw.before.digest if redraw.before else None
        key = key_of("score", self.scorer.identity, redraw.original_prompt, before, after.digest)
        future, mine = self._scoring.claim(key)
        if not mine:
            return await asyncio.shield(future)
        try:
            score = self.cache.score(key)
            if score is None:
                score = await self._scored(redraw, after, counts)
                self.cache.keep_score(key, score)
        except BaseException as error:
            self._scoring.fail(key, error)
            raise
        self._scoring.land(key, score)
        return score

    async def _scored(self, redraw: Redraw, after: Picture, counts: BatchCounts) -> Score:
        def score() -> Score:
            started = time.monotonic()
            try:
                with boundary(ScorerError, "The scorer failed"):
                    if self.card is not None:
                        self.card.give_to("judge")
                    value = self.scorer.score(redraw.before, after, redraw.original_prompt)
                    if not isinstance(value, Score):
                        raise ScorerError(f"The scorer returned {type(value).__name__} instead of a Score.")
                    return value
            finally:
                counts.score_seconds += time.monotonic() - started

        settings = self.settings
        value = await self._score_calls.attempted(
            score, settings.score_seconds, settings.tries, RETRY_SECONDS, counts.repeat
        )
        counts.scored += 1
        return value

    def _draw_key(self, redraw: Redraw) -> str:
        before = redraw.before.digest if redraw.before else None
        alone = () if self._repeatable else (next(self._unrepeated),)
        return key_of("draw", self.generator.identity, redraw.prompt, before, redraw.seed, *alone)
