"""A run as text for the nodes, the console and the exports: attempts, reasoning, drift, changed prompts.

All places use the same text, and it is created from the recorded attempts alone. A critic that writes in its
own notation has a module (`NOTATIONS`) whose `as_english(text)` returns sentences, and returns any other text
unchanged. Drift is measured on demand and not during the run, since it takes some milliseconds per image and
decides nothing.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from typing import Literal, NamedTuple

from ...core.drift import Drift, drift
from ...core.prompts.prompt_set import NAMES, shown_prompt_sets
from ...core.types import Attempt, CheckedItem, RunSettings, Step, StepResult, Trajectory, Value, Verdict
from ...story.loop.policy import first_image
from ...story.outcomes import (
    AttemptOutcome,
    outcome,
    probability_words,
    spent_words,
    stop_sentence,
    story_steps,
    summarize,
    times_of,
)

WORD = re.compile(r"\s+|\w+|[^\w\s]")
MAX_PAIRS = 40_000


class Piece(NamedTuple):
    """A run of text that is unchanged, inserted or deleted."""

    kind: Literal["same", "ins", "del"]
    text: str


def changes(before: str, after: str) -> list[Piece]:
    """Return the pieces of a comparison.

    Without the "del" pieces they give `after`, without the "ins" pieces `before`. A replaced phrase is one
    change: blanks between its words are part of it. Long or repetitive text between the common start and the
    common end is replaced as a whole (more than `MAX_PAIRS` pairs of equal words), since comparing it word by
    word takes more than quadratic time.
    """
    old, new = WORD.findall(before), WORD.findall(after)
    first = _alike(old, new)
    last = _alike(old[first:][::-1], new[first:][::-1])
    head, tail = "".join(old[:first]), "".join(old[len(old) - last :])
    old, new = old[first : len(old) - last], new[first : len(new) - last]
    counts = Counter(new)
    opcodes = [("replace", 0, len(old), 0, len(new))]
    if sum(counts[word] for word in old) <= MAX_PAIRS:
        opcodes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    pieces, deleted, inserted = [Piece("same", head)], "", ""
    for tag, i1, i2, j1, j2 in opcodes:
        one, other = "".join(old[i1:i2]), "".join(new[j1:j2])
        if tag != "equal" or one.isspace():
            deleted, inserted = deleted + one, inserted + other
        else:
            pieces += [Piece("del", deleted), Piece("ins", inserted), Piece("same", one)]
            deleted = inserted = ""
    pieces += [Piece("del", deleted), Piece("ins", inserted), Piece("same", tail)]
    return [piece for piece in pieces if piece.text]


def _alike(old: list[str], new: list[str]) -> int:
    """Return the number of words that both start with."""
    return next(
        (index for index, (one, other) in enumerate(zip(old, new, strict=False)) if one != other),
        min(len(old), len(new)),
    )


NOTATIONS = ("....tinyworld.reasoning",)
"""Modules with `as_english`. They are imported when there is a reasoning to show."""
PASSED, FAILED, UNKNOWN = "✓", "✗", "?"


def reasoning_shown(verdict: Verdict | None) -> str:
    """Return the checklist of a verdict and its reasoning for display; empty without a verdict."""
    ticks = [tick_line(item) for item in verdict.items] if verdict else []
    return "\n\n".join(part for part in ("\n".join(ticks), reasoning_alone(verdict)) if part)


def reasoning_alone(verdict: Verdict | None) -> str:
    """Return the reasoning of a verdict for display, without its checklist; empty without a verdict."""
    text = verdict.reasoning if verdict else ""
    for name in NOTATIONS if text else ():
        text = import_module(name, __package__).as_english(text)
    return text


def tick_line(item: CheckedItem) -> str:
    """Return an item with its tick and P(yes): whether it is true, or that the critic cannot judge it."""
    known = "" if item.probability is None else f" (P(yes) {item.probability:.2f})"
    if item.passed is None:
        no_answer = item.unanswered or item.probability is None
        why = "no answer" if no_answer else f"cannot judge {item.kind}"
        return f"{UNKNOWN} {item.text}{known}: {why}"
    return f"{PASSED if item.passed else FAILED} {item.text}{known}"


class StepDrift(Value):
    """Drift of a step's kept image from its source image and the story's first image; `None` without one."""

    from_source: Drift | None = None
    from_anchor: Drift | None = None

    @property
    def sentence(self) -> str:
        """The drift as a sentence for reports; empty if there is nothing to compare with."""
        if self.from_source is None or self.from_anchor is None:
            known = self.from_source or self.from_anchor
            return known.sentence if known else ""
        if self.from_source == self.from_anchor:
            return self.from_source.sentence
        return f"{self.from_source.sentence}; from the first image {self.from_anchor.sentence}"


def drift_of_steps(trajectory: Trajectory) -> dict[int, StepDrift]:
    """Return the drift of every kept image, by step number."""
    drifts = {}
    for number, result in enumerate(trajectory.results):
        if result.chosen is None or result.image is None:
            continue
        source = result.attempts[result.chosen].source
        anchor = first_image(trajectory.request.images, trajectory.results[:number])
        drifts[result.step.number] = StepDrift(
            from_source=None if source is None else drift(source, result.image),
            from_anchor=None if anchor is None else drift(anchor, result.image),
        )
    return drifts


def made_by(trajectory: Trajectory) -> list[tuple[str, str]]:
    """Return name and identity of every known model of the run; prompt sets by name."""
    known = {**trajectory.identities.model_dump()}
    known["prompt_set"] = shown_prompt_sets(known["prompt_set"])
    return [(name.replace("_", " "), value) for name, value in known.items() if value]


def image_texts(results: Sequence[StepResult]) -> list[str]:
    """Return the text of every kept image, in order."""
    texts: list[str] = []
    before: list[str] = []
    for result in results:
        text = _text_of(result.step)
        if result.image is not None:
            texts.append("\n\n".join([*before, text]))
            before = []
        elif not result.step.prompt and texts:
            texts[-1] += f"\n\n{text}"
        elif not result.step.prompt:
            before.append(text)
    return texts


def _text_of(step: Step) -> str:
    return step.auxiliary_text or step.instruction or step.name or step.prompt or ""


def attempt_words(attempt: Attempt, settings: RunSettings) -> str:
    """Return the outcome of an attempt, with the success probability or the error message."""
    result = outcome(attempt, settings)
    if attempt.error is not None and result in (AttemptOutcome.failed, AttemptOutcome.not_judged):
        return f"{result.label}: {attempt.error.message}"
    # Without spaces: the browser reads it as one number of the line (web/words.js).
    probability = probability_words(attempt, settings).replace(" of ", "/").replace(" ", "")
    return f"{result.label}, {probability} likely right" if probability else result.label


def report(trajectory: Trajectory) -> str:
    """Return the report of a run: how each step ended, its drift, and every attempt with its prompt."""
    lines = [summarize(trajectory).sentence]
    drifts = drift_of_steps(trajectory)
    for shown in story_steps(trajectory):
        end = stop_sentence(shown.result) if shown.result else "Not reached"
        lines += ["", f"{shown.step.number}. {shown.step.name or shown.step.instruction or 'Step'}: {end}"]
        for number, attempt in enumerate(shown.result.attempts if shown.result else ()):
            mark = ">" if shown.result and number == shown.result.chosen else " "
            lines.append(f" {mark} attempt {number + 1}: {attempt_words(attempt, trajectory.settings)}")
            lines.append(f"     {attempt.prompt}")
            if attempt.enhancement:
                enhanced = attempt.enhancement.warning or attempt.enhancement.prompt
                lines.append(f"     enhanced: {enhanced}")
        if shown.step.number in drifts and (words := drifts[shown.step.number].sentence):
            lines.append(f"   change: {words}")
    if times := times_of(trajectory):
        lines += ["", *(f"Time of the {name}: {spent_words(spent)}" for name, spent in times.items())]
    prompt_sets = shown_prompt_sets(trajectory.identities.prompt_set)
    if {*prompt_sets.split(", ")} - {*NAMES, ""}:
        lines += ["", f"Prompt set: {prompt_sets}"]
    return "\n".join(lines)
