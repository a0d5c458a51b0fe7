"""Checks a plan before anything is generated: pure functions from a plan and its request to findings.

A rule that raises false alarms is worse than none, since its findings are shown to users and sent to the
planner. So every rule looks for clear cases only. Their words are elsewhere: counts and images are read by
requested.py, members of the cast by `core/types/presence.py`.
tests/data/plan_faults.jsonl has faults that they must find, and twins without them.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import Field

from ...core.types import Plan, Request, Step, Text, Value
from ...core.types.cast import named_in
from ...core.types.checklist import LETTERING
from ...core.types.presence import Manner, members_in, mentions, without_marks
from .requested import AskedCount, asked_count, asked_images, asks_for_images, asks_for_none

MAX_SHOWN = 60
"""Maximum length, in characters, of a text that a message quotes."""
MAX_READ = 2_000
"""Maximum length, in characters, of the part of a prompt or a request that is read."""


class Finding(Value):
    """One problem of a plan."""

    step: int | None = Field(description="Number of the step; null if the finding concerns the whole plan.")
    rule: str = Field(description="Id of the rule.")
    message: Text = Field(description="What is wrong, with the words of the plan.")

    @property
    def sentence(self) -> str:
        """The message with the number of its step."""
        return self.message if self.step is None else f"Step {self.step}: {self.message}"


@dataclass(frozen=True)
class Asked:
    """What can be counted in a plan.

    Attributes:
        count: The number of steps, if one is known.
        named: The number is in the request's text, so it may also be the number of images.
        images: The request asks for images.
    """

    count: AskedCount | None
    named: bool
    images: bool

    def distance(self, plan: Plan) -> int:
        """Return by how many steps the plan is too long or too short."""
        if self.count is None:
            return 0
        drawn = sum(bool(step.prompt) for step in plan.steps)
        counts = {len(plan.steps), drawn or len(plan.steps)} if self.named else {len(plan.steps)}
        return min(map(self.count.distance, counts))

    def lacks_images(self, plan: Plan) -> bool:
        """Return whether the plan has no images although the request asks for them."""
        return self.images and not any(step.prompt for step in plan.steps)

    def is_met(self, plan: Plan) -> bool:
        """Return whether the plan is as requested."""
        return not self.distance(plan) and not self.lacks_images(plan)


def asked_in(request: Request, step_count: int = 0) -> Asked:
    """Return what a request asks for. `step_count` replaces the number in its text, unless it is 0."""
    images = asks_for_images(request)
    if step_count:
        return Asked(AskedCount(step_count, step_count, True), False, images)
    count = asked_count(request.text)
    return Asked(count if count is not None and count.is_clear else None, True, images)


@dataclass(frozen=True)
class Checked:
    """A plan that is checked, with the text of its request (empty if it is unknown)."""

    plan: Plan
    request: str
    asked: Asked

    @property
    def drawn(self) -> list[tuple[Step, str]]:
        """The steps with an image, each with the beginning of its prompt, without the style."""
        return [(step, step.prompt[:MAX_READ]) for step in self.plan.steps if step.prompt]


Found = Iterator[tuple[int | None, str]]
"""Numbers of steps (`None` for the whole plan) with messages."""


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
        if _plain(prompt) == _plain(first) and step.settings == before.settings:
            yield step.number, f"The prompt is the same as in step {before.number}."


def _plain(text: str) -> str:
    """Return a text for comparison: lower case, without punctuation, with single spaces."""
    text = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.sub(r"[\W_]+", " ", text).split())


def _shown(text: str) -> str:
    """Return a text as a message quotes it: on one line, at most `MAX_SHOWN` characters."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


MARK = re.compile(r"(?<![\w@])@(\w+)")


class StepCast(NamedTuple):
    """Who is in a step by its prompt, in the order of the cast. `marked`: by `@Name` marks, not by name."""

    step: int
    names: tuple[str, ...]
    marked: bool


def found_casts(plan: Plan) -> list[StepCast]:
    """Return who is in each step with a prompt, if the step had no list. It is shown next to the findings."""
    found = []
    for step in plan.steps if plan.cast else ():
        prompt, marked = without_marks(plan.cast, step.prompt or "")
        if prompt:
            members = members_in(plan.cast, marked or None, prompt)
            found.append(StepCast(step.number, tuple(one.name for one in members), bool(marked)))
    return found


def cast_left_out(checked: Checked) -> Found:
    """Find prompts that differ from the list of the step, or mark a member who does not exist."""
    for step, prompt in checked.drawn:
        listed = members_in(checked.plan.cast, step.cast, prompt)
        manners: dict[str, set[Manner]] = {}
        for one in mentions(checked.plan.cast, prompt):
            manners.setdefault(one.member.name, set()).add(one.manner)
        for member in checked.plan.cast:
            found = manners.get(member.name, set())
            if "seen" in found and member not in listed:
                yield step.number, f"The prompt names '{member.name}', who is not in the step's cast."
            if found == {"gone"} and member in listed:
                yield step.number, f"The prompt leaves out '{member.name}', who is in the step's cast."
        for found in MARK.finditer(LETTERING.sub("", prompt)) if checked.plan.cast else ():
            yield step.number, f"The prompt marks '{_shown(found.group())}', who is not in the cast."


def cast_missing(checked: Checked) -> Found:
    """Find members that no step shows although the request names them, or prompts with other capitals."""
    cast = checked.plan.cast
    seen = [one for step, prompt in checked.drawn for one in members_in(cast, step.cast, prompt)]
    asked = [one.member for one in mentions(cast, checked.request) if one.manner != "gone"]
    for member in cast:
        if not checked.drawn or member in seen:
            continue
        if member in asked:
            yield None, f"The request names '{member.name}', but no step shows it."
            continue
        for step, prompt in checked.drawn:
            other = next((one.group() for one in named_in(member.name, prompt) if step.cast is None), "")
            if other not in ("", member.name):
                yield step.number, f"'{_shown(other)}' is not read as a member: capitals count in names."
                break


SHOT = r"(?:[ -]angle)?(?:(?:[ -][\w-]+)?[ -](?:shots?|view|framing)|(?=:))"
CLOSE = r"close[ -]?ups?|(?-i:CU)|(?:close|tight|head)[ -]?shots?"
WIDE = rf"(?:wide|long){SHOT}|(?-i:[WL]S)|(?<=size: )(?:wide|long)"
FULL = rf"full{SHOT}|(?-i:FS)|(?<=size: )full"
ALL_SIZES = rf"(?:{CLOSE}|{WIDE}|{FULL}|(?:medium|mid|waist){SHOT})"
SIZE = re.compile(
    r"\b(?:(?P<extreme>extreme(?:ly)?[ -]|(?-i:[EX](?=CU|[WL]S)))"
    r"|(?P<medium>med(?:ium)?[ -]|(?-i:M(?=CU|[WL]S))))?"
    rf"(?:(?P<close>{CLOSE})|(?P<wide>{WIDE})|(?P<full>{FULL})|(?P<establishing>establishing{SHOT}))\b"
    rf"|\b(?P<middle>(?:medium|mid|waist){SHOT}|midshot|(?-i:MS)|(?<=size: )medium)\b"
    r"|\b(?P<knees>(?:knees?-up|cowboy|american|three-quarter) shot)\b"
    r"|\b(?P<moving>(?:start|begin)s? (?:wide|close))\b",
    re.IGNORECASE,
)
"""Sizes of shots, in English words and as abbreviations. "moving" is a camera that moves."""
ASKED_SIZE = re.compile(
    rf"\b(?:all|every|each|only|same|fixed|locked|static)\b[^.;]*{ALL_SIZES}"
    rf"|{ALL_SIZES}[^.;]*\b(?:all|every|each|only|same|fixed)\b|\b(?:close-?up|portrait)s (?:of|only)\b",
    re.IGNORECASE,
)
"""A request for shots of one size."""


def same_shot_size(checked: Checked) -> Found:
    """The third of three shots in a row with the same size, unless the request asks for that."""
    row: list[str] = []
    for step, prompt in () if ASKED_SIZE.search(checked.request) else checked.drawn:
        sizes = {
            " ".join(name for name, text in found.groupdict().items() if text): found.group()
            for found in SIZE.finditer(prompt)
        }
        if len(sizes) > 1:
            sizes.pop("establishing", None)
        # A shot with two sizes is one in which the camera moves.
        size = next(iter(sizes)) if len(sizes) == 1 else ""
        row = [*row, size] if row and {size, row[-1]} in ({size}, {"establishing", "wide"}) else [size]
        if size and len(row) == 3:
            yield step.number, f"The third shot in a row of the same size: '{sizes[size]}'."


RULES: dict[str, Callable[[Checked], Found]] = {
    "step-count": step_count,
    "no-images": no_images,
    "missing-images": missing_images,
    "unasked-images": unasked_images,
    "identical-prompts": identical_prompts,
    "cast-left-out": cast_left_out,
    "cast-missing": cast_missing,
    "same-shot-size": same_shot_size,
}
"""All rules by id, in the order of their findings."""
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
        Finding(step=step, rule=rule, message=message)
        for rule, find in RULES.items()
        for step, message in find(checked)
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
