"""The rules of the plan lint, and the function that applies them.

A rule that raises false alarms is worse than none: its findings are shown to users and sent to the planner.
So every rule looks for clear cases only. tests/data/plan_faults.jsonl has faults that they must find, and
twins without them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ....core.types import Plan, Request
from .cast_rules import cast_changed, cast_count, cast_left_out, cast_missing, color_changed
from .findings import MAX_READ, Asked, Checked, Finding, Found, Rule, asked_in, plain
from .prompt_rules import meta_words, no_subject, prompt_form, unfinished
from .request_rules import head_count, missing_goal, missing_text, unasked_words
from .requested import asked_images, asks_for_none


def step_count(checked: Checked) -> Found:
    """Find another number of steps than the request asks for."""
    if checked.asked.distance(checked.plan):
        assert checked.asked.count is not None, "without a number the distance is 0"
        asked, has = checked.asked.count.words, len(checked.plan.steps)
        yield None, f"The plan has another number of steps than requested: {has}, not {asked}."


def no_images(checked: Checked) -> Found:
    """Find a plan without images for a request that asks for them."""
    if checked.asked.lacks_images(checked.plan):
        yield None, "The request asks for images, but no step has a prompt."


def missing_images(checked: Checked) -> Found:
    """Find fewer images than the request asks for, if some steps are text-only."""
    number, drawn = asked_images(checked.request), len(checked.drawn)
    if number is not None and 0 < drawn < min(number, len(checked.plan.steps)):
        yield None, f"The request asks for {number} images, but only {drawn} steps have a prompt."


def unasked_images(checked: Checked) -> Found:
    """Find prompts in a plan for a request that says that there are to be no images."""
    if asks_for_none(checked.request):
        for step, _ in checked.drawn:
            yield step.number, "The step has a prompt, but the request says that there are to be no images."


def identical_prompts(checked: Checked) -> Found:
    """Find steps with the prompt and the settings of the step before.

    After another edit in between, the same edit may be meant again.
    """
    for (before, first), (step, prompt) in itertools.pairwise(checked.drawn):
        if plain(prompt) == plain(first) and step.settings == before.settings:
            yield step.number, f"The prompt is the same as in step {before.number}."


RULES = (
    Rule("step-count", "The plan has the number of steps that the request asks for.", step_count),
    Rule("no-images", "A plan for a request that asks for images has prompts.", no_images),
    Rule("missing-images", "Each image that the request counts has a step with a prompt.", missing_images),
    Rule("unasked-images", "A plan for a request without images has no prompts.", unasked_images),
    Rule("prompt-form", "Each prompt only describes an image: no talk, lists, labels or slots.", prompt_form),
    Rule("meta-words", "No prompt refers to another step ('as before', 'step 3').", meta_words),
    Rule("no-subject", "Each prompt names its subject, not only a pronoun ('make it blue').", no_subject),
    Rule("missing-text", "A text in quotes that the request wants in an image is in a prompt.", missing_text),
    Rule("missing-goal", "What the request tells to add is in a prompt.", missing_goal),
    Rule("identical-prompts", "No step repeats prompt and settings of the step before.", identical_prompts),
    Rule("unfinished", "No text is cut off, and the last step ends the story.", unfinished),
    Rule("unasked-words", "No lettering or captions that the request does not ask for.", unasked_words),
    Rule("head-count", "Numbers in a prompt agree with its lists and with the request.", head_count),
    Rule("cast-left-out", "Prompts show the members of the cast that their steps list.", cast_left_out),
    Rule("cast-missing", "A member of the cast whom the request names is in a step.", cast_missing),
    Rule("cast-changed", "No member of the cast changes its colors by itself.", cast_changed),
    Rule("color-changed", "Nothing that someone wears changes its color by itself.", color_changed),
    Rule("cast-count", "No prompt has more people than its step's list has characters.", cast_count),
)
"""All rules, in the order of their findings."""


COUNTED_RULES = frozenset(("step-count", "no-images"))
"""Rules that the planner's own constraints enforce, with a warning in the plan (plan_constraints.py)."""
PLANNER_WROTE = "the planner wrote"
"""Words of that warning, which a warning about other things does not have."""


def lint(plan: Plan, request: Request | str = "", asked: Asked | None = None) -> tuple[Finding, ...]:
    """Return the findings of all rules, those of the whole plan first, then by step.

    Args:
        plan: The plan.
        request: The request or its text. Without one, only the rules that need none can find anything.
        asked: Number of steps and images that are asked for. Default: read from the request.
    """
    request = Request(text=request) if isinstance(request, str) else request
    checked = Checked(plan.resolved, request.text[:MAX_READ], asked or asked_in(request))
    found = [
        Finding(step=step, rule=rule.id, message=message)
        for rule in RULES
        for step, message in rule.find(checked)
    ]
    return tuple(sorted(found, key=lambda one: one.step or 0))


def remaining(plan: Plan, request: Request, step_count: int = 0) -> tuple[Finding, ...]:
    """Return the findings to show next to a plan: all that its own warning does not tell."""
    found = lint(plan, request, asked_in(request, step_count))
    return tuple(one for one in found if PLANNER_WROTE not in plan.warning or one.rule not in COUNTED_RULES)


def step_findings(plan: Plan, request: Request | str) -> tuple[Finding, ...]:
    """Return the findings to show next to the steps of a plan, whose number an option may have set."""
    return tuple(one for one in lint(plan, request) if one.rule != "step-count")


def sentences(findings: Sequence[Finding]) -> str:
    """Return findings as sentences with the numbers of their steps."""
    return " ".join(one.sentence for one in findings)
