"""Plans of `fresh.txt`: faults in phrasings that no rule was made from, and plans without faults."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from interleave_thinker.backend.agents.plan_lint.lint import lint
from interleave_thinker.backend.answers.reading import read_plan
from interleave_thinker.backend.cast import CastMember
from interleave_thinker.backend.errors import AnswerError
from interleave_thinker.backend.plan_editor.merge import apply_edits, read_edits
from interleave_thinker.backend.types import Plan, Step

GOOD = "good"
FENCED = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
OUTLINE = re.compile(r"(?:(?!1\.)[a-z]+: [^\n]*\n+|   [^\n]*\n+)*1\. [^\n]*\n\s+(?:do|draw|text): ")
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class FreshPlan:
    """A plan with at most one fault.

    Attributes:
        kind: Kind of its fault, or `GOOD`.
        request: The request.
        plan: The plan.
        fault_at: Number of the step with the fault; `None` if the fault concerns the whole plan.
        held_back: Whether no rule was written with it.
    """

    kind: str
    request: str
    plan: Plan
    fault_at: int | None = None
    held_back: bool = False

    @property
    def found(self) -> tuple[str, ...]:
        """The rules that find something: at the fault, or anywhere in a plan without faults."""
        findings = lint(self.plan, self.request)
        return tuple(one.rule for one in findings if self.kind == GOOD or one.step in (None, self.fault_at))


def fresh_plans() -> Iterator[FreshPlan]:
    """Yield the plans of the file."""
    seen = Counter[str]()
    text = Path(__file__).with_name("fresh.txt").read_text(encoding="utf-8")
    for block in text.split("\n\n")[1:]:
        head, *lines = block.strip("\n").split("\n")
        kind, _, request = head.partition(": ")
        kind = kind.split()[0]
        members = [line.strip()[1:].partition(": ") for line in lines if line.lstrip().startswith("@")]
        cast = tuple(CastMember(name=name, traits=tuple(traits.split("; "))) for name, _, traits in members)
        written = [line for line in lines if not line.lstrip().startswith("@")]
        steps = []
        for number, line in enumerate(written, 1):
            prompt, _, caption = line[2:].replace("\\n", "\n").partition(" |")
            steps.append(
                Step(number=number, prompt=prompt.strip() or None, auxiliary_text=caption.strip() or None)
            )
        marked = [number for number, line in enumerate(written, 1) if line.startswith("* ")]
        plan = Plan(steps=tuple(steps), cast=cast)
        yield FreshPlan(kind, request, plan, marked[0] if marked else None, seen[kind] % 2 == 1)
        seen[kind] += 1


def repository_plans() -> Iterator[FreshPlan]:
    """Yield the plans in the workflows, documents, prompt templates and test files, which have no faults."""
    for path in sorted((ROOT / "workflows").glob("*.json")):
        for text in _texts(json.loads(path.read_text(encoding="utf-8"))):
            if OUTLINE.match(text):
                yield _edited(text)
    for path in sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / "skills").rglob("*.md")]):
        for block in FENCED.findall(path.read_text(encoding="utf-8")):
            if OUTLINE.match(block):
                yield _edited(block)
    for path in sorted((ROOT / "backend" / "prompts" / "templates").rglob("planner*.txt")):
        for answer in re.findall(
            r"<answer>\{+\"execution_plan.*?</answer>", path.read_text(encoding="utf-8"), re.DOTALL
        ):
            try:
                yield FreshPlan(GOOD, "", read_plan(answer))
            except AnswerError:
                continue  # the form of an answer, without an example
    for path in sorted((ROOT / "tests" / "data").rglob("plan.json")):
        yield FreshPlan(GOOD, "", Plan.model_validate_json(path.read_text(encoding="utf-8")))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def _edited(text: str) -> FreshPlan:
    edits = read_edits(text)
    assert edits is not None
    return FreshPlan(GOOD, "", apply_edits(edits, None).plan)


def counted_fresh() -> Mapping[str, Mapping[str, int]]:
    """Return plans and found ones by kind, of the open and the held back half."""
    counts: dict[str, Counter[str]] = {}
    for one in (*fresh_plans(), *repository_plans()):
        half = "held back" if one.held_back else "open"
        kind = counts.setdefault(one.kind, Counter())
        kind[half] += 1
        kind[f"{half} found"] += bool(one.found)
    return counts


def shown_fresh() -> Iterator[str]:
    """Yield missed faults and false alarms."""
    for one in (*fresh_plans(), *repository_plans()):
        if (one.kind == GOOD) == bool(one.found):
            rules = ", ".join(one.found)
            what = "FALSE" if one.found else "MISSED"
            yield f"{what} {one.kind} {rules} | {one.request} | {one.plan.steps[0].prompt}"
