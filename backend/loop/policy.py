"""The rules of a run as pure functions: what counts as accepted, which attempt is kept, what is edited, which
seed.

Decision: every rule that decides about an image stands here and nowhere else, without state, so that the
loop, the evaluation and a reader of a finished trajectory come to the same conclusion.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from ..errors import SettingsError
from ..generators.protocol import Generator, is_repeatable
from ..pictures import Picture
from ..types import (
    MAX_ATTEMPTS,
    MAX_TEXT,
    Attempt,
    Request,
    RunSettings,
    StepResult,
    UnusedSetting,
    Verdict,
    in_style,
)
from .protocols import KnowsUnused

if TYPE_CHECKING:
    from collections.abc import Sequence


SEED_BITS = 48

SeedRule = Literal["every try", "every step"]


def attempt_seed(
    base: int, step_number: int, attempt: int, rule: SeedRule = "every try", candidates: int = 1
) -> int:
    """Seed of attempt `attempt` (0-based) at a step: 48 bits of BLAKE2b over "base/step/attempt".

    A hash and not a sum, so that base 0 step 2 never meets base 1 step 1: neighbouring runs, steps and
    attempts share no seed. 0 <= seed < 2**48, which every generator's random source takes. With the rule
    "every step" all attempts of a step have the seed of its first; of several candidates each has that of its
    place in the first try.
    """
    return hashed_seed(f"{base}/{step_number}/{attempt if rule == 'every try' else attempt % candidates}")


def hashed_seed(text: str, bits: int = SEED_BITS) -> int:
    """Return `bits` (a multiple of 8) of BLAKE2b over the text, as a number of at least 0."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=bits // 8).digest(), "big")


def accepted(verdict: Verdict | None, accept_at: float | None) -> bool:
    """Whether the critic's word lets an image pass.

    No verdict, or one that could not be understood, never does. With `accept_at` the probability decides, in
    both directions; a backend that reports none leaves the critic's own word, for there is nothing else to go
    by.
    """
    if verdict is None or verdict.success is None:
        return False
    if accept_at is None or verdict.probability is None:
        return verdict.success
    return verdict.probability >= accept_at


def standing(attempt: Attempt) -> tuple[float, float, float]:
    """How good an attempt is, for comparison: probability of success, then overall score, then the word
    itself.

    Where no probability was reported the word stands in for it: True 1, False 0, and 0.5 for an attempt that
    nobody could judge, which thereby ranks above one known to be wrong. A missing score ranks below any.
    """
    success = attempt.verdict.success if attempt.verdict else None
    word = 0.5 if success is None else float(success)
    probability = attempt.verdict.probability if attempt.verdict else None
    score = attempt.score.overall if attempt.score else -1.0
    return (word if probability is None or success is None else probability, score, word)


def choose(attempts: Sequence[Attempt], settings: RunSettings) -> int | None:
    """Index of the attempt a step keeps: the accepted one (of several candidates the best, of equally good
    ones the first), else the best or the last (`settings.keep`) with an image.

    Of equally good refused ones the later wins: its prompt has the critic's corrections in it. None if no
    attempt has an image.
    """
    drawn = [index for index, attempt in enumerate(attempts) if attempt.image is not None]
    passed = [index for index in drawn if accepted(attempts[index].verdict, settings.accept_at)]
    if passed:
        return max(passed, key=lambda index: (standing(attempts[index]), -index))
    if settings.keep == "last":
        return drawn[-1] if drawn else None
    return max(drawn, key=lambda index: (standing(attempts[index]), index), default=None)


def user_selected(attempts: Sequence[Attempt], digest: str | None) -> int | None:
    """Index of the first attempt whose image has the digest that a person picked; None if there is none."""
    if digest is None:
        return None
    images = [attempt.image.digest if attempt.image else None for attempt in attempts]
    return images.index(digest) if digest in images else None


def next_prompt(candidates: Sequence[Attempt], style: str = "") -> str:
    """Prompt of the following try: the critic's refinement, or the same where it gave none or was not heard,
    behind the plan's style. Of several candidates the best one's that was judged."""
    attempt = max(candidates, key=lambda one: (one.verdict is not None, standing(one)))
    prompt = in_style((attempt.verdict.refined_prompt if attempt.verdict else "") or attempt.prompt, style)
    # The longest refinements have no room for a style; what was just drawn with has it.
    return prompt if len(prompt) <= MAX_TEXT else attempt.prompt


def draws_left(results: Sequence[StepResult], settings: RunSettings) -> int:
    """Draws that the following steps may still take, after these results; what a person asked for is not
    counted."""
    if settings.max_draws is None:
        return MAX_ATTEMPTS
    attempts = [attempt for result in results for attempt in result.attempts]
    made = sum(attempt.place == 0 and attempt.redraw is None for attempt in attempts)
    return max(0, settings.max_draws - made)


def check_source(request: Request, settings: RunSettings) -> None:
    """Raise SettingsError where the source rule asks for an image that the request does not have."""
    if settings.source == "anchor" and not request.images:
        raise SettingsError(
            "source=anchor edits the request's first image in every step, but the request has no image.",
            "Give an image, or use source=first to edit the first one drawn.",
        )


def source_of(request: Request, earlier: Sequence[StepResult], settings: RunSettings) -> Picture | None:
    """The image that the next step edits; None is text-to-image.

    "previous": the latest earlier step that has an image. "first": the earliest. Before any is drawn both
    take the request's last image, since a request that shows several is continued from where its images end,
    or none. "anchor": the request's first image, always.
    """
    if settings.source == "anchor":
        return request.images[0]
    drawn = [result.image for result in earlier if result.image is not None]
    if drawn:
        return drawn[0 if settings.source == "first" else -1]
    return request.images[-1] if request.images else None


def first_image(given: Sequence[Picture], earlier: Sequence[StepResult]) -> Picture | None:
    """The image that a story starts from: the request's first, else the first one drawn, None before there is
    any."""
    if given:
        return given[0]
    return next((result.image for result in earlier if result.image is not None), None)


def unused_from_start(generator: Generator, agents: Iterable[object]) -> list[UnusedSetting]:
    """Return the settings without effect that are known before anything is generated, each once."""
    found: list[UnusedSetting] = [] if is_repeatable(generator) else ["seed"]
    for agent in agents:
        found += agent.unused_settings if isinstance(agent, KnowsUnused) else ()
    return list(dict.fromkeys(found))


def unused_at(verdict: Verdict | None, settings: RunSettings) -> list[UnusedSetting]:
    """Return the settings that have no effect on this verdict."""
    if settings.accept_at is None or verdict is None or verdict.success is None:
        return []
    return ["accept_at"] if verdict.probability is None else []
