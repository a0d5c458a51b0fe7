"""The rules of a run as pure functions: acceptance, the kept attempt, the source image, the seeds.

Every rule that decides about an image is here and only here, without state. So the loop, the evaluation and a
reader of a finished trajectory come to the same conclusion.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Literal

from ..cast import followed_by
from ..checklist import CheckedItem, ChecklistItem, derived
from ..errors import SettingsError
from ..generators.generator import Generator
from ..journal.records.run_record import plan_digest
from ..journal.waiting import Waiting
from ..pictures import Picture
from ..types import (
    MAX_ATTEMPTS,
    MAX_TEXT,
    Attempt,
    Plan,
    Request,
    RunSettings,
    Step,
    StepResult,
    StopReason,
    Trajectory,
    UnusedSetting,
    Verdict,
    in_style,
)
from ..types.roles import AgentLike, CriticLike

SEED_BITS = 48

MAY_WAIT = (
    StopReason.accepted,
    StopReason.attempts_used_up,
    StopReason.redrawn,
    StopReason.unchecked,
    StopReason.unjudged,
)
"""Stop reasons of a step with an image about which the user may be asked."""

SeedRule = Literal["every try", "every step", "1000 per step"]


def attempt_seed(
    base: int, step_number: int, attempt: int, rule: SeedRule = "every try", candidates: int = 1
) -> int:
    """Return the seed of an attempt: 48 bits of BLAKE2b over "base/step/attempt".

    A hash and not a sum, so that neighboring runs, steps and attempts do not share a seed: base 0, step 2
    differs from base 1, step 1.

    Args:
        base: Base seed of the run.
        step_number: Number of the step.
        attempt: Number of the attempt, from 0.
        rule: "every try": each attempt has its own seed. "every step": all attempts of a step have the seed
            of the first; each of several candidates has the seed of its place in the first attempt. "1000
            per step": as "every step", with the published demo's seeds, 1000 * (step - 1) above the base.
        candidates: Number of candidates per attempt.

    Returns:
        A seed in the range [0, 2**48), which the random source of every generator accepts.
    """
    place = attempt if rule == "every try" else attempt % candidates
    if rule == "1000 per step":
        return (base + 1000 * (step_number - 1) + place) % 2**SEED_BITS
    return hashed_seed(f"{base}/{step_number}/{place}")


def hashed_seed(text: str, bits: int = SEED_BITS) -> int:
    """Return `bits` (a multiple of 8) of BLAKE2b over the text, as a number of at least 0."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=bits // 8).digest(), "big")


def accepted(verdict: Verdict | None, accept_at: float | None) -> bool:
    """Return whether a verdict accepts an image.

    A missing verdict, or one that could not be parsed, does not. Neither does one with a failed item, or with
    one that the critic did not answer. With `accept_at` the probability decides, in both directions. If the
    critic reports no probability, its own yes/no verdict decides.
    """
    if verdict is None or verdict.success is None or unanswered(verdict):
        return False
    if any(item.passed is False for item in verdict.items):
        return False
    if accept_at is None or verdict.probability is None:
        return verdict.success
    return verdict.probability >= accept_at


def unanswered(verdict: Verdict | None) -> tuple[str, ...]:
    """Return the items of a verdict that the critic did not answer."""
    return tuple(item.text for item in verdict.items if item.unanswered) if verdict else ()


def is_read(verdict: Verdict | None) -> bool:
    """Return whether there is a verdict that could be parsed, also if its checklist was not answered."""
    return verdict is not None and (verdict.success is not None or bool(unanswered(verdict)))


def unchecked(verdict: Verdict | None, accept_at: float | None) -> bool:
    """Return whether only items that the critic did not answer keep a verdict from accepting an image."""
    if verdict is None or not unanswered(verdict):
        return False
    items = tuple(item for item in verdict.items if not item.unanswered)
    success = True if verdict.success is None else verdict.success
    return accepted(verdict.model_copy(update={"success": success, "items": items}), accept_at)


def with_items(verdict: Verdict, items: Sequence[CheckedItem], prompt_used: str) -> Verdict:
    """Return a verdict with the answers to the step's checklist.

    A failed item rejects the image, and is added to the refined prompt unless that contains it. If an item
    has no answer, an accepted image is not known to be right: the verdict has no success then.

    Args:
        verdict: The verdict on the whole image. One that could not be parsed stays without a success.
        items: The answers.
        prompt_used: Prompt of the judged attempt.
    """
    failed = [item for item in items if item.passed is False]
    if not failed:
        success = None if verdict.success and any(item.unanswered for item in items) else verdict.success
        return verdict.model_copy(update={"success": success, "items": tuple(items)})
    refined = verdict.refined_prompt.strip() or prompt_used
    missing = [item.text for item in failed if item.text.casefold() not in refined.casefold()]
    asked = followed_by(refined, f"Make sure of this: {'; '.join(missing)}.") if missing else refined
    return verdict.model_copy(
        update={
            "success": None if verdict.success is None else False,
            "refined_prompt": asked if len(asked) <= MAX_TEXT else refined,
            "items": tuple(items),
        }
    )


def checklist_of(step: Step, plan: Plan, settings: RunSettings) -> tuple[ChecklistItem, ...]:
    """Return the items that the critic answers about a step: its own, else derived ones if the run asks."""
    if step.checklist or not settings.derive_checklist:
        return step.checklist
    # The style sentence is part of every prompt and not what a step shows.
    own = next(one for one in plan.steps if one.number == step.number)
    return derived(own.prompt or "", plan.members_in(own.number), own.facts)


def standing(attempt: Attempt) -> tuple[float, float, float]:
    """Return a sort key of an attempt: success probability, then overall score, then the yes/no verdict.

    Without a probability the verdict counts instead: true 1, false 0, and 0.5 for an attempt without a
    verdict, which thereby ranks above one known to be wrong. A missing score ranks below any score.
    """
    success = attempt.verdict.success if attempt.verdict else None
    word = 0.5 if success is None else float(success)
    probability = attempt.verdict.probability if attempt.verdict else None
    score = attempt.score.overall if attempt.score else -1.0
    if probability is None or success is None:
        return word, score, word
    # The last digits depend on the CPU, the batch and cached prompts.
    return round(probability, 6), score, word


def choose(attempts: Sequence[Attempt], settings: RunSettings, by_score: bool = False) -> int | None:
    """Return the index of the attempt that a step keeps.

    This is the accepted one: the best of several candidates, and the first of equally good ones. If none is
    accepted it is the best or the last (`settings.keep`) with an image. Among equally good rejected ones the
    later wins, since its prompt contains the critic's corrections. `None` if no attempt has an image.

    Args:
        attempts: The attempts.
        settings: The run's settings.
        by_score: Whether the run has a scorer. Its scores then decide which is the best, if all attempts
            between which to choose have one.
    """
    rivals = rivals_of(attempts, settings)
    if len(rivals) < 2:
        return rivals[0] if rivals else None
    scores = [attempts[index].score for index in rivals] if by_score else [None]
    overall = [score.overall for score in scores if score]
    ranks = overall if len(overall) == len(rivals) else [0.0] * len(rivals)
    first_wins = accepted(attempts[rivals[0]].verdict, settings.accept_at)
    return max(
        zip(rivals, ranks, strict=True),
        key=lambda one: (one[1], standing(attempts[one[0]]), -one[0] if first_wins else one[0]),
    )[0]


def rivals_of(attempts: Sequence[Attempt], settings: RunSettings) -> list[int]:
    """Return the indices of the attempts between which a step chooses its image: those accepted, else all.

    With `settings.keep` "last", only the last one if none is accepted.
    """
    drawn = [index for index, attempt in enumerate(attempts) if attempt.image is not None]
    passed = [index for index in drawn if accepted(attempts[index].verdict, settings.accept_at)]
    return passed or (drawn[-1:] if settings.keep == "last" else drawn)


def user_selected(attempts: Sequence[Attempt], digest: str | None) -> int | None:
    """Return the index of the first attempt whose image has the digest that the user picked, if any."""
    if digest is None:
        return None
    images = [attempt.image.digest if attempt.image else None for attempt in attempts]
    return images.index(digest) if digest in images else None


def next_prompt(candidates: Sequence[Attempt], style: str = "") -> str:
    """Return the prompt of the next attempt, with the plan's style sentence.

    This is the critic's refined prompt, or the same prompt without one. Of several candidates
    the best judged one counts.
    """
    attempt = max(candidates, key=lambda one: (one.verdict is not None, standing(one)))
    prompt = in_style((attempt.verdict.refined_prompt if attempt.verdict else "") or attempt.prompt, style)
    # A refined prompt of maximum length leaves no room for the style sentence; the current prompt has it.
    return prompt if len(prompt) <= MAX_TEXT else attempt.prompt


def draws_of(result: StepResult) -> int:
    """Return the number of generator calls of a step, without those that the user requested."""
    return sum(attempt.place == 0 and attempt.redraw is None for attempt in result.attempts)


def draws_left(results: Sequence[StepResult], settings: RunSettings, step: Step | None = None) -> int:
    """Return how many generator calls the next step may use.

    Args:
        results: The results before it.
        settings: The run's settings.
        step: The next step. If it was rewritten, its calls before that are counted.
    """
    if settings.max_draws is None:
        return MAX_ATTEMPTS
    steps = [*(result.step for result in results), *([step] if step else [])]
    given_up = sum(one.rewritten.draws for one in steps if one.rewritten)
    return max(0, settings.max_draws - given_up - sum(map(draws_of, results)))


def passed(result: StepResult, timed: str | None) -> StepResult:
    """Return the result of a step that a time-out let pass with the image `timed`, if it still has that.

    No person saw the image, so the step does not count as accepted, whatever the critic answered: the user
    had asked to be asked.
    """
    if result.image is None or result.image.digest != timed or result.stop_reason not in MAY_WAIT:
        return result
    return result.model_copy(update={"stop_reason": StopReason.approved_by_time})


def waits_for_plan(plan: Plan, settings: RunSettings, approved: str | None) -> Waiting | None:
    """Return what a run waits for before its first step, if the planner's plan needs the user's approval.

    Args:
        plan: The plan.
        settings: The run's settings.
        approved: Digest of the plan that the user approved or a time-out let pass.
    """
    digest = plan_digest(plan)
    asks = settings.pause in ("after the plan", "every step")
    return Waiting(digest=digest) if asks and digest != approved else None


def waits_at(result: StepResult, settings: RunSettings) -> Waiting | None:
    """Return what a run waits for after a step, if it needs the user's decision.

    Picks and skips are decisions of the user, so these steps do not wait.
    """
    reason = result.stop_reason
    good = (StopReason.accepted, StopReason.unjudged)
    rejected = reason is StopReason.error or (reason in MAY_WAIT and reason not in good)
    asks = rejected or (settings.pause == "every step" and reason in good)
    if not asks or settings.pause not in ("at rejected steps", "every step"):
        return None
    return Waiting(
        step=result.step.number,
        digest=result.image.digest if result.image else None,
        attempt=None if result.chosen is None else result.chosen + 1,
        reason=reason,
    )


def waiting_of(trajectory: Trajectory) -> Waiting | None:
    """Return what a stored run waits for. A run without a result can only wait for its plan."""
    if trajectory.results:
        return waits_at(trajectory.results[-1], trajectory.settings)
    return waits_for_plan(trajectory.plan, trajectory.settings, None)


def check_source(request: Request, settings: RunSettings) -> None:
    """Raise an error if the source rule needs an image that the request does not have.

    Raises:
        SettingsError: The source is "anchor", and the request has no image.
    """
    if settings.source == "anchor" and not request.images:
        raise SettingsError(
            "source=anchor edits the request's first image in every step, but the request has no image.",
            "Add an image to the request, or use source=first to edit the first generated image.",
        )


def source_of(request: Request, earlier: Sequence[StepResult], settings: RunSettings) -> Picture | None:
    """Return the image that the next step edits; `None` means text-to-image.

    "previous": the latest earlier step that has an image. "first": the earliest such step. Before the first
    image is generated both use the request's last image, if there is one, since a request with several images
    continues from the last. "anchor": always the request's first image.
    """
    if settings.source == "anchor":
        return request.images[0]
    drawn = [result.image for result in earlier if result.image is not None]
    if drawn:
        return drawn[0 if settings.source == "first" else -1]
    return request.images[-1] if request.images else None


def first_image(given: Sequence[Picture], earlier: Sequence[StepResult]) -> Picture | None:
    """Return the image that a story starts from: the request's first, else the first generated, if any."""
    if given:
        return given[0]
    return next((result.image for result in earlier if result.image is not None), None)


def unused_from_start(generator: Generator, agents: Iterable[AgentLike | None]) -> list[UnusedSetting]:
    """Return the settings without effect that are known before anything is generated, without duplicates."""
    found: list[UnusedSetting] = [] if generator.repeatable else ["seed"]
    for agent in agents:
        found += agent.unused_settings if agent else ()
    return list(dict.fromkeys(found))


def unused_checklist(plan: Plan, critic: CriticLike | None, settings: RunSettings) -> list[UnusedSetting]:
    """Return the checklist as unused if a step has one and the critic cannot answer items."""
    if critic is None or critic.checks_items:
        return []
    return ["checklist"] if any(checklist_of(step, plan, settings) for step in plan.drawn_steps) else []


def unused_at(verdict: Verdict | None, settings: RunSettings) -> list[UnusedSetting]:
    """Return the settings that have no effect on this verdict."""
    if settings.accept_at is None or verdict is None or verdict.success is None:
        return []
    return ["accept_at"] if verdict.probability is None else []
