"""The attempts at a clip, by the rules of images: judge, refine the prompt, make it again, keep the best."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ...errors import ChatError, GeneratorError
from ...journal.store import InMemoryStore, JudgeKey, JudgementRecord
from ...loop.judgements import MissingVerdicts
from ...loop.policy import accepted, attempt_seed, choose, next_prompt
from ...machine.counters import count
from ...pictures import Picture
from ...types import Attempt, Fault, RunSettings, StopReason, Verdict
from ...types.clip import ClipMaker, ClipPair, Footage
from ...values import bounded_identity


class JudgesClips(Protocol):
    """The clip critic's interface (see `ClipCritic`)."""

    @property
    def identity(self) -> str:
        """Model and all settings that affect its verdicts; part of the cache keys."""
        ...

    def judge_clip(self, frames: Sequence[Picture], original_prompt: str, prompt_used: str) -> Verdict:
        """Return the verdict on a clip.

        Raises:
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """
        ...


class KeepsVerdicts(Protocol):
    """Caches verdicts on clips. Their keys contain a digest of all frames."""

    def judged(self, key: JudgeKey) -> JudgementRecord | None:
        """Return the record of an earlier judgement, if there is one."""
        ...

    def keep_judged(self, judged: JudgementRecord) -> None:
        """Store the record of a judgement."""
        ...


@dataclass(frozen=True)
class ClipAttempt:
    """An attempt at a clip: its record, whose image is the last frame, and its frames. `None`: it failed."""

    attempt: Attempt
    footage: Footage | None = None


@dataclass(frozen=True)
class ClipResult:
    """All attempts at a clip. `chosen` is an index, or `None` if no attempt has frames."""

    attempts: tuple[ClipAttempt, ...]
    chosen: int | None
    stop_reason: StopReason

    @property
    def kept(self) -> ClipAttempt | None:
        """The chosen attempt."""
        return None if self.chosen is None else self.attempts[self.chosen]


OnAttempt = Callable[[ClipPair, int, ClipAttempt], None]
"""Called with an attempt at a clip and its index."""


@dataclass
class ClipRun:
    """Makes clips one after another.

    Of the settings, these apply to clips: max_attempts, accept_at, keep, judge_last, seed, seed_rule.

    Attributes:
        maker: Makes the clips.
        critic: Judges them. Without one, or with one attempt, each clip is made once and not judged.
        settings: The run's settings.
        verdicts: Caches verdicts.
        on_attempt: Called with each attempt once it is made, and again once it is judged.
        deadline: Time of `time.monotonic()` after which no further attempt at a clip starts.
    """

    maker: ClipMaker
    critic: JudgesClips | None
    settings: RunSettings
    verdicts: KeepsVerdicts = field(default_factory=InMemoryStore)
    on_attempt: OnAttempt | None = None
    deadline: float = float("inf")

    def __post_init__(self) -> None:
        self._missing = MissingVerdicts(self.critic.identity if self.critic else "")

    def clip(self, pair: ClipPair) -> ClipResult:
        """Make a clip until the critic accepts an attempt, or the attempts are used up.

        Verdicts refer to the prompt of `pair`. A refined prompt reaches the maker in a copy of it.

        Raises:
            AnswerError: Two verdicts in a row could not be parsed.
            ChatError: Two judgements in a row failed.
            Cancelled: The run was cancelled.
        """
        critic, settings = self.critic, self.settings
        most = settings.max_attempts if critic else 1
        made: list[ClipAttempt] = []
        prompt, reason = pair.prompt, StopReason.unjudged
        for number in range(most):
            if made and time.monotonic() >= self.deadline:
                reason = StopReason.budget
                break
            seed = attempt_seed(settings.seed, pair.step, number, settings.seed_rule)
            made.append(self._made(pair, prompt, seed))
            self._report(pair, made)
            if critic is None or most == 1:
                break
            reason = StopReason.attempts_used_up
            footage = made[-1].footage
            if footage and (settings.judge_last or number + 1 < most):
                judged, reused = self._judged(critic, pair, made[-1].attempt.prompt, footage)
                made[-1] = _with_judgement(made[-1], judged)
                self._report(pair, made)
                self._missing.hear(judged, reused)
            if accepted(made[-1].attempt.verdict, settings.accept_at):
                reason = StopReason.accepted
                break
            prompt = next_prompt([made[-1].attempt])
        chosen = choose([one.attempt for one in made], settings)
        return ClipResult(tuple(made), chosen, StopReason.error if chosen is None else reason)

    def _made(self, pair: ClipPair, prompt: str, seed: int) -> ClipAttempt:
        began, footage, error = time.monotonic(), None, None
        try:
            footage = self.maker.make(pair.model_copy(update={"prompt": prompt}), seed)
            if not footage.frames:
                raise GeneratorError(
                    f"The clip of step {pair.step} has no frames.", "Check the video model's settings."
                )
        except GeneratorError as failure:
            footage, error = None, Fault(where="generator", message=str(failure))
        attempt = Attempt(
            prompt=prompt,
            seed=seed,
            source=pair.first,
            image=footage.frames[-1] if footage else None,
            error=error,
            seconds=time.monotonic() - began,
        )
        return ClipAttempt(attempt, footage)

    def _judged(
        self, critic: JudgesClips, pair: ClipPair, prompt: str, footage: Footage
    ) -> tuple[JudgementRecord, bool]:
        """Return the record of a judgement, and whether it is cached. A failed judgement is not stored."""
        key = JudgeKey(
            critic=critic.identity,
            before=pair.first.digest,
            after=frames_digest(footage.frames),
            original_prompt=pair.prompt,
            prompt_used=prompt,
        )
        known = self.verdicts.judged(key)
        if known is not None:
            count(judgements_kept=1)
            return known, True
        count(judgements=1)
        began, verdict, error = time.monotonic(), None, None
        try:
            verdict = critic.judge_clip(footage.frames, pair.prompt, prompt)
        except ChatError as failure:
            error = Fault(where="critic", message=str(failure))
        record = JudgementRecord(key=key, verdict=verdict, error=error, seconds=time.monotonic() - began)
        if verdict is not None:
            self.verdicts.keep_judged(record)
        return record, False

    def _report(self, pair: ClipPair, made: Sequence[ClipAttempt]) -> None:
        if self.on_attempt is not None:
            self.on_attempt(pair, len(made) - 1, made[-1])


class JudgedMaker:
    """A `ClipMaker` whose clips are judged. A rejected clip is made again with a refined prompt.

    Args:
        maker: Makes the clips.
        critic: Judges them.
        settings: Which of them apply: see `ClipRun`. The seed is that of `make`.
        on_attempt: See `ClipRun`.
    """

    def __init__(
        self,
        maker: ClipMaker,
        critic: JudgesClips,
        settings: RunSettings,
        on_attempt: OnAttempt | None = None,
    ) -> None:
        self._run = ClipRun(maker, critic, settings, on_attempt=on_attempt)
        rules = settings.model_dump_json(
            include={"max_attempts", "accept_at", "keep", "judge_last", "seed_rule"}
        )
        self.identity = bounded_identity(f"{maker.identity} critic={critic.identity} {rules}")

    def make(self, pair: ClipPair, seed: int) -> Footage:
        """Return the frames of the kept attempt, with its verdict.

        Raises:
            GeneratorError: No attempt could be made.
            AnswerError: Two verdicts in a row could not be parsed.
            ChatError: Two judgements in a row failed.
            Cancelled: The run was cancelled.
        """
        self._run.settings = self._run.settings.model_copy(update={"seed": seed})
        result = self._run.clip(pair)
        kept = result.kept
        if kept is None or kept.footage is None:
            error = result.attempts[-1].attempt.error
            raise GeneratorError(
                f"The clip of step {pair.step} could not be made in {len(result.attempts)} attempts. "
                f"{error.message if error else ''}".strip()
            )
        verdict = kept.attempt.verdict
        if verdict is None or verdict.success is None:
            return kept.footage
        is_accepted = accepted(verdict, self._run.settings.accept_at)
        return replace(kept.footage, accepted=is_accepted, reasoning=verdict.reasoning)


def frames_digest(frames: Sequence[Picture]) -> str:
    """Return a digest of all frames of a clip, as a cache key."""
    return hashlib.blake2b("".join(one.digest for one in frames).encode(), digest_size=20).hexdigest()


def _with_judgement(made: ClipAttempt, judged: JudgementRecord) -> ClipAttempt:
    update = {
        "verdict": judged.verdict,
        "error": judged.error,
        "seconds": made.attempt.seconds + judged.seconds,
    }
    return ClipAttempt(made.attempt.model_copy(update=update), made.footage)
