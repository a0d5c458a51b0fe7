"""The rules of a run as pure functions: seeds, prompts, sources, acceptance, the kept attempt, pauses.

Every rule that decides about an image of a run is a function here, without state, and the loop only calls
them in order. So the evaluation and a reader of a finished trajectory come to the same conclusion. A record
of another program has its own choice (execution_record/trajectory.py). In the order of a step: the image that
it edits and those shown next to it, the seed of each attempt, what a verdict means, which attempt is kept
(`decide`), whether the step is rewritten, whether the run ends or waits, and which step the story check
reopens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from ...core.errors import SourceMissing
from ...core.pictures import Picture
from ...core.types import (
    MAX_ATTEMPTS,
    MAX_STEP_IMAGES,
    MAX_TEXT,
    Attempt,
    CastShown,
    DrawSettings,
    Plan,
    Request,
    Rewritten,
    RunSettings,
    Step,
    StepResult,
    StepSettings,
    StopReason,
    StoryCheck,
    Trajectory,
    Verdict,
    in_style,
)
from ...core.types.cast import cast_text, followed_by, newest_images
from ...core.types.checklist import CheckedItem, ChecklistItem, derived
from ...core.types.run_settings import SeedRule
from ..journal.run_files import plan_digest
from ..journal.waiting import Waiting

ALL = "all"
SEED_BITS = 48
MAY_WAIT = (
    StopReason.accepted,
    StopReason.attempts_used_up,
    StopReason.redrawn,
    StopReason.unchecked,
    StopReason.unjudged,
)
"""Stop reasons of a step with an image about which the user may be asked."""


def step_source(
    step: Step, request: Request, earlier: Sequence[StepResult], settings: RunSettings
) -> Picture | None:
    """Return the image that a step edits; `None` means text-to-image.

    Raises:
        SourceMissing: The step that it refers to does not have an image, or the request has none.
    """
    own = step.settings.source
    if own == "text":
        return None
    if isinstance(own, int):
        image = next((result.image for result in earlier if result.step.number == own), None)
        if image is None:
            raise SourceMissing(
                f"Step {own}, which this step edits, does not have an image.",
                "Generate that step first, and connect its story.",
            )
        return image
    rule = settings if own is None else settings.model_copy(update={"source": own})
    if rule.source == "anchor" and not request.images:
        raise SourceMissing(
            f"Step {step.number} edits the request's first image, but the request has none.",
            "Connect an image to the request of the plan.",
        )
    return source_of(request, earlier, rule)


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


def shows_all(step: Step, settings: RunSettings) -> bool:
    """Return whether the step is given all earlier images."""
    return (step.settings.source or settings.source) == ALL


def drawn_settings(
    step: Step,
    plan: Plan,
    request: Request,
    earlier: Sequence[StepResult],
    settings: RunSettings,
    source: Picture | None,
) -> StepSettings:
    """Return the step's settings with the images shown next to its source, and what is said about its cast.

    Args:
        step: The step.
        plan: Its plan, for the cast.
        request: The request.
        earlier: Results of the steps before.
        settings: The run's settings.
        source: Image that the step edits.
    """
    most = settings.most_images or MAX_STEP_IMAGES
    room = max(0, most - 1 - (step.settings.reference is not None))
    members = plan.members_in(step.number)
    shown = newest_images(members, source)[:room]
    beside = [picture for _, picture in shown]
    if shows_all(step, settings):
        others = _beside([*request.images, *(one.image for one in earlier if one.image is not None)])
        beside = [*beside, *(one for one in others if one not in beside)][:room]
    told = cast_text(members, step.facts, step.cast is not None)
    cast = CastShown(text=told, names=tuple(name for name, _ in shown)) if told or shown else None
    if not beside and cast is None:
        return step.settings
    return DrawSettings(**dict(step.settings), beside=tuple(beside), cast=cast)


def _beside(shown: Sequence[Picture]) -> list[Picture]:
    """Return the references: all images but the newest, which is edited; the first, then newer before older.

    No image is returned twice.
    """
    if not shown:
        return []
    ordered = [shown[-1], shown[0], *reversed(shown[1:-1])]
    return list({one.digest: one for one in ordered}.values())[1:]


def max_attempts_of(step: Step, settings: RunSettings) -> int:
    """Return the maximum number of attempts of a step."""
    return step.settings.tries or settings.max_attempts


def max_attempts_in(plan: Plan | None, settings: RunSettings) -> int:
    """Return the largest number of attempts that a step of the plan may use."""
    return (
        max((max_attempts_of(step, settings) for step in plan.steps), default=1)
        if plan
        else settings.max_attempts
    )


def step_seed(step: Step, attempt: int, settings: RunSettings) -> int:
    """Return the seed of attempt `attempt` (from 0).

    A step's own seed is the seed of its first attempt, so an image can be reproduced from the seed that is
    shown. The seeds of the other attempts are derived from it, as from a run's base seed.
    """
    own = step.settings.seed
    base = settings.seed if own is None else own
    place = attempt if settings.seed_rule == "every attempt" else attempt % settings.candidates
    if own is not None and place == 0:
        return own
    return attempt_seed(base, step.number, attempt, settings.seed_rule, settings.candidates)


def attempt_seed(
    base: int, step_number: int, attempt: int, rule: SeedRule = "every attempt", candidates: int = 1
) -> int:
    """Return the seed of an attempt: 48 bits of BLAKE2b over "base/step/attempt".

    A hash and not a sum, so that neighboring runs, steps and attempts do not share a seed: base 0, step 2
    differs from base 1, step 1.

    Args:
        base: Base seed of the run.
        step_number: Number of the step.
        attempt: Number of the attempt, from 0.
        rule: "every attempt": each attempt has its own seed. "every step": all attempts of a step have the
            seed of the first; each of several candidates has the seed of its place in the first attempt.
            "1000 per step": as "every step", with the published demo's seeds, 1000 * (step - 1) above the
            base.
        candidates: Number of candidates per attempt.

    Returns:
        A seed in the range [0, 2**48), which the random source of every generator accepts.
    """
    place = attempt if rule == "every attempt" else attempt % candidates
    if rule == "1000 per step":
        return (base + 1000 * (step_number - 1) + place) % 2**SEED_BITS
    return hashed_seed(f"{base}/{step_number}/{place}")


def redraw_seed(
    step: Step,
    settings: RunSettings,
    number: int,
    prompt: str,
    attempts: Sequence[Attempt],
    turn: int = 0,
) -> int:
    """Return the seed of a requested attempt, derived from the run's base seed.

    It differs from the seeds of the step's own attempts, so the same prompt gives another image. Exception:
    with the seed rule "every step" and a new prompt the step's seed is used, since only the prompt should
    change.

    Args:
        step: The step.
        settings: The run's settings.
        number: Number of the request, from 1.
        prompt: Its prompt.
        attempts: The attempts so far.
        turn: Number of the request's generator call, from 0.
    """
    if settings.seed_rule == "every step" and all(attempt.prompt != prompt for attempt in attempts):
        return step_seed(step, 0, settings)
    return hashed_seed(f"{settings.seed}/{step.number}/redraw {number}{f'.{turn}' if turn else ''}")


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


class Ended(NamedTuple):
    """How the attempts of a step ended.

    Attributes:
        reason: Why the step made no further attempt of its own.
        requested: Index of the requested attempt that is the step's result, if there is one.
        early: Why the last requested attempt was not made, if it was not.
    """

    reason: StopReason
    requested: int | None = None
    early: StopReason | None = None


class Picks(NamedTuple):
    """What the user, or a time-out, decided about a step, as digests of images.

    Attributes:
        newest: The user's pick after the last attempt.
        before: The user's pick before the first attempt. A requested attempt replaces it.
        timed: The image that a time-out let pass.
    """

    newest: str | None = None
    before: str | None = None
    timed: str | None = None


class Decision(NamedTuple):
    """The end of a step: the index of the kept attempt, why, and whether a pick confirms the rules."""

    chosen: int | None
    reason: StopReason
    approved: bool = False


def decide(
    attempts: Sequence[Attempt],
    ended: Ended,
    picks: Picks,
    settings: RunSettings,
    judged: bool = True,
    by_score: bool = False,
) -> Decision:
    """Return which attempt a step keeps and why it ended.

    The user's pick comes first, then a requested attempt, then `choose`. No user has seen an image
    that a time-out approved, so it does not count as accepted, whatever the critic answered.

    Args:
        attempts: All attempts of the step.
        ended: How they ended.
        picks: What was decided about the step.
        settings: The run's settings.
        judged: Whether the run has a critic.
        by_score: As in `choose`.
    """
    index = ended.requested
    kept = choose(attempts, settings, by_score) if index is None else index
    for digest in (picks.newest, picks.before if index is None else None):
        picked = user_selected(attempts, digest)
        if picked is not None:
            return Decision(picked, StopReason.picked, approved=picked == kept)
    reason = ended.reason
    if attempts and all(attempt.image is None for attempt in attempts):
        reason = StopReason.error
    elif index is not None:
        reason = ended_by(attempts[index : index + 1], settings) or (
            StopReason.redrawn if judged else StopReason.unjudged
        )
    reason = ended.early or reason
    image = attempts[kept].image if kept is not None else None
    if image is not None and image.digest == picks.timed and reason in MAY_WAIT:
        reason = StopReason.approved_by_time
    return Decision(kept, reason)


def ended_by(candidates: Sequence[Attempt], settings: RunSettings) -> StopReason | None:
    """Return why no attempt follows these candidates; `None` if their verdicts ask for another one.

    If only items that the critic did not answer are open, another image would leave them open too.
    """
    verdicts = [attempt.verdict for attempt in candidates]
    if any(accepted(verdict, settings.accept_at) for verdict in verdicts):
        return StopReason.accepted
    if any(unchecked(verdict, settings.accept_at) for verdict in verdicts):
        return StopReason.unchecked
    return None


def choose(attempts: Sequence[Attempt], settings: RunSettings, by_score: bool = False) -> int | None:
    """Return the index of the attempt that a step keeps by the rules; `None` if no attempt has an image.

    This is the accepted one: the best of several candidates, and the first of equally good ones. If none is
    accepted it is the best or the last (`settings.keep`) with an image. Among equally good rejected ones the
    later wins, since its prompt contains the critic's corrections.

    Args:
        attempts: The attempts.
        settings: The run's settings.
        by_score: Whether the run has a scorer. Its scores then decide which is the best, if all attempts
            between which to choose have one.
    """
    rivals = rivals_of(attempts, settings)
    if not rivals:
        return None
    scores = [one.overall if (one := attempts[index].score) and by_score else None for index in rivals]
    known = [0.0 if None in scores else score for score in scores]
    ranks = [(score, *standing(attempts[index])) for index, score in zip(rivals, known, strict=True)]
    best = [index for index, rank in zip(rivals, ranks, strict=True) if rank == max(ranks)]
    first_wins = accepted(attempts[rivals[0]].verdict, settings.accept_at)
    return best[0] if first_wins else best[-1]


def rivals_of(attempts: Sequence[Attempt], settings: RunSettings) -> list[int]:
    """Return the indices of the attempts between which a step chooses its image: those accepted, else all.

    With `settings.keep` "last", only the last one if none is accepted.
    """
    drawn = [index for index, attempt in enumerate(attempts) if attempt.image is not None]
    passed = [index for index in drawn if accepted(attempts[index].verdict, settings.accept_at)]
    return passed or (drawn[-1:] if settings.keep == "last" else drawn)


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


def may_be_rewritten(result: StepResult) -> bool:
    """Return whether a step whose result is this may be generated from text: it failed as an edit."""
    return result.stop_reason is StopReason.attempts_used_up and result.attempts[-1].source is not None


def from_text(result: StepResult, plan: Plan, prompt: str) -> Step | None:
    """Return the step of a result as one of the plan that is generated from text.

    Args:
        result: The result whose attempts were not accepted.
        plan: The plan.
        prompt: A prompt for the whole image of the step.

    Returns:
        The step; `None` if the prompt cannot be used.
    """
    if not prompt.strip() or len(in_style(prompt, plan.style)) > MAX_TEXT:
        return None
    step = next(one for one in plan.steps if one.number == result.step.number)
    assert step.prompt, "a step with attempts has a prompt"
    settings = step.settings.model_copy(update={"source": "text", "mask": None, "denoise": None})
    before = Rewritten(prompt=step.prompt, settings=step.settings, draws=draws_of(result))
    return Step(**{**dict(step), "prompt": prompt, "settings": settings, "rewritten": before})


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


def ends_run(result: StepResult, settings: RunSettings) -> bool:
    """Return whether a run ends after a step: its time is used up, or it failed and `on_failure` is stop."""
    failed = result.stop_reason in (StopReason.attempts_used_up, StopReason.unchecked, StopReason.error)
    return result.stop_reason is StopReason.budget or (failed and settings.on_failure == "stop")


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


def step_to_reopen(
    pages: Sequence[StepResult], check: StoryCheck, asked_before: Sequence[str | None]
) -> StepResult | None:
    """Return the step with an image that a story check found wrong, and that is generated again.

    An image that the user chose or requested stays. One whose new attempt was rejected has its next turn
    after the others.

    Args:
        pages: The steps that have an image, in order.
        check: What the story check found.
        asked_before: Digests of the images about which it requested attempts before.
    """

    def is_wrong(page: StepResult) -> bool:
        redraw = page.attempts[page.chosen or 0].redraw
        by_user = page.stop_reason is StopReason.picked or (redraw is not None and redraw.by == "user")
        found = any(one.step == page.step.number for one in check.findings)
        return found and not by_user and len(prompt_with_problems(page, check)) <= MAX_TEXT

    def turns(page: StepResult) -> int:
        return asked_before.count(page.image.digest) if page.image else 0

    return min(filter(is_wrong, pages), key=turns, default=None)


def prompt_with_problems(page: StepResult, check: StoryCheck) -> str:
    """Return the prompt of a step followed by what a story check says about its image."""
    problems = dict.fromkeys(one.problem for one in check.findings if one.step == page.step.number)
    return followed_by(page.step.prompt or "", " ".join(problems))
