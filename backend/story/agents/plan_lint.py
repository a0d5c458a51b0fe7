"""Checks a plan before anything is generated: pure functions from a plan and its request to findings.

A rule that raises false alarms is worse than none, since its findings are shown to users and sent to the
planner. So every rule looks for clear cases only. tests/data/plan_faults.jsonl has faults that they must
find, and twins without them. A member of the cast is found as in `core/types/presence.py`.
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


def _words(table: str) -> frozenset[str]:
    return frozenset(table.split())


HAN = re.compile(r"[\u4e00-\u9fff]")
WORD = re.compile(r"[^\W\d_]+")
FUNCTION_WORDS = {
    "en": _words("the a an of and in on with is are to for at its his her from into that"),
    "es": _words("el la los las un una de del y en con que es al su para se"),
    "de": _words("der die das ein eine einen einem und in im mit auf ist zu den dem von"),
}
GOAL_ENGLISH = re.compile(
    r"\b(?:add|draw|paint|put|place|insert|include|attach|hang)(?: also| in)? "
    r"(?:an?|the|some|another|one|two|three|four|five|six|seven|eight|nine|ten|\d{1,2})\s+"
    r"((?:[a-z-]+\s?){1,4})",
    re.IGNORECASE,
)
ENGLISH_ENDS = _words(
    "to in on at into onto next beside with above below under behind that who which and then so from over "
    "near around of for as about where while it by between there here inside outside"
)
GOAL_SPANISH = re.compile(
    r"\b(?:añade|agrega|dibuja|pinta|pon|coloca|incluye)(?: también| además| luego)? (?:una?|unos|unas|"
    r"dos|tres|cuatro|cinco|seis|el|la|los|las|\d{1,2}) ([a-záéíóúñü]+)",
    re.IGNORECASE,
)
GOAL_GERMAN = re.compile(
    r"\b(?:[Ff]üge?|[Mm]ale?|[Zz]eichne|[Ss]etze?|[Ss]telle?|[Ll]ege?|[Hh]änge?|[Gg]ib)(?: (?:dann|noch|"
    r"zum Schluss|am Ende|danach|auch|bitte|schließlich))* (?:eine?[nmrs]?|zwei|drei|vier|fünf|sechs|"
    r"de[nrms]|die|das|\d{1,2}) (?:[a-zäöüß]+ ){0,2}([A-ZÄÖÜ][a-zäöüß]+)"
)
GOAL_CHINESE = re.compile(
    r"(?:加上|添加|加入|画上|再画|放上|增加|添上)(?:了)?"
    r"(?:[一两二三四五六七八九十几0-9]{1,2}[只个条朵棵张把盏座辆匹头顶块面群颗本艘位名支]?)?"
    r"([\u4e00-\u9fff]{1,8})(?=[，。、；！？,.!?\s]|$|和|在|到)"
)
MADE = re.compile(
    r"\b(?:make|paint|turn|color|colour) (?:it|them|him|her|the [a-z-]+(?: [a-z-]+)?) "
    r"(red|blue|green|yellow|orange|purple|pink|black|white|gray|grey|brown|golden|silver)\b",
    re.IGNORECASE,
)
WORKS = _words(
    "story tale picture image comic scene panel page poster illustration drawing step recipe guide diagram "
    "series storyboard style caption text description explanation instruction version sequence stories "
    "pictures images comics scenes panels pages illustrations drawings steps captions texts sentence line "
    "book bedtime cuento historia cómic imagen imágenes dibujo dibujos escena escenas pasos paso viñetas "
    "cartel geschichte bild bilder comic szene szenen seite seiten plakat schritte text texte "
    "gutenachtgeschichte bildergeschichte rezept anleitung märchen"
)
"""Nouns of the story itself, which no prompt has to mention."""
HAN_WORKS = re.compile(r"[图画]$|故事|漫画|文字|说明|标题|步|字$")


def missing_goal(checked: Checked) -> Found:
    """Find goals of the request that no prompt mentions.

    Only instructions ("add a red kite", "make it blue") name a goal in words that a plan should repeat. A
    plan in another language is not compared.
    """
    prompts = " ".join([checked.plan.style, *(prompt for _, prompt in checked.drawn)])
    language = _language_of(checked.request)
    if not checked.drawn or language is None or _language_of(prompts) != language:
        return
    for goal in dict.fromkeys(_goals(checked.request, language)):
        if not _has_noun(prompts, goal):
            yield None, f"The request asks for '{_shown(goal)}', but no prompt mentions it."


def _goals(request: str, language: str) -> Iterator[str]:
    """Yield the nouns and colors of the instructions in a request."""
    if language == "en":
        for found in GOAL_ENGLISH.finditer(request):
            words = found[1].split()
            phrase = [*itertools.takewhile(lambda word: word.casefold() not in ENGLISH_ENDS, words)]
            if phrase and phrase[-1].casefold() not in WORKS:
                yield phrase[-1]
        yield from (found[1] for found in MADE.finditer(request))
    elif language == "zh":
        for found in GOAL_CHINESE.finditer(request):
            noun = found[1].rpartition("的")[2]
            if noun and not HAN_WORKS.search(noun):
                yield noun[-2:]
    else:
        for found in (GOAL_SPANISH if language == "es" else GOAL_GERMAN).finditer(request):
            if found[1].casefold() not in WORKS:
                yield found[1]


def _language_of(text: str) -> str | None:
    """Return "en", "es", "de" or "zh", or `None` if that is unclear."""
    if HAN.search(text):
        return "zh"
    words = [word.casefold() for word in WORD.findall(text)]
    counts = {name: sum(word in known for word in words) for name, known in FUNCTION_WORDS.items()}
    best = max(counts, key=lambda name: counts[name])
    return best if sorted(counts.values())[-2] < counts[best] else None


def _has_noun(text: str, noun: str) -> bool:
    """Return whether a text has a noun in singular or plural, or a word that begins or ends with it."""
    if HAN.search(noun):
        return noun in text
    root = _stem(noun)
    words = map(_stem, WORD.findall(text))
    return any(
        (root.startswith(word) and len(root) - len(word) <= 2) or word.startswith(root) or word.endswith(root)
        for word in words
    )


def _stem(word: str) -> str:
    """Return the beginning of a noun that its singular and plural share."""
    letters = unicodedata.normalize("NFKD", word.casefold())
    bare = "".join(one for one in letters if not unicodedata.combining(one))
    for ending in ("ies", "en", "er", "es", "s", "e", "n", "y"):
        if bare.endswith(ending) and len(bare) - len(ending) >= 3:
            return bare[: -len(ending)]
    return bare


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


RULES: dict[str, Callable[[Checked], Found]] = {
    "step-count": step_count,
    "no-images": no_images,
    "missing-images": missing_images,
    "unasked-images": unasked_images,
    "missing-goal": missing_goal,
    "identical-prompts": identical_prompts,
    "cast-left-out": cast_left_out,
    "cast-missing": cast_missing,
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
