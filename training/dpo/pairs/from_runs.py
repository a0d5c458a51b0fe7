"""Builds preference pairs for a critic from run journals: its answer to an image against a better one.

A journal contains one answer per question, so most pairs compare this answer with a better one from a
reliable source. There are three rules; a case that none of them covers makes no pair.

- "overruled": a person or a score contradicts the critic, and the corrected answer is chosen. The correction
  needs reasoning (a note or an exact teacher); otherwise it would teach to answer without thinking.
- "remedy": the verdict is right, but the image generated from the critic's refined prompt was rejected, or a
  person wrote a better prompt. The same verdict with the prompt that led to an accepted image is chosen.
- "two answers": several runs asked the same question and got different answers. The right verdict is
  chosen or, of two rejections, the one whose prompt led to the better next image.

Plans are not compared by the outcome of their stories: a critic accepts easy steps sooner, so the emptier
plan would win. Pairs for planners are made with a judge of plans (sampled.py).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from ....backend.answers.reading import write_verdict
from ....backend.errors import AnswerError, SettingsError
from ....backend.files.atomic import write_text, writing_folder
from ....backend.prompts import PromptSet
from ....backend.types import Verdict
from ...data.from_runs.attempts import JudgedImage, JudgedStep
from ...data.from_runs.convert import RunConverter, keep_images, sft_row
from ...data.rows.preference import CRITIC_FILE, CriticPair, write_pairs
from ...data.rows.row_folder import IMAGES, check_place
from .choosing import counted, show

REPORT_FILE = "report.json"


class RunPairs(BaseModel):
    """Settings that select which answers in runs make a pair."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    least_margin: float = Field(
        default=1.0,
        ge=0,
        le=10,
        description="For two rejections of the same image: minimum difference in semantics (0-10) between "
        "the next images of both.",
    )
    without_reasoning: bool = Field(
        default=False,
        description="Also use corrections without reasoning. They teach to answer without thinking.",
    )


class _Found(NamedTuple):
    """A pair before it becomes a row: the image, both answers and the rule."""

    judged: JudgedImage
    chosen: Verdict
    rejected: Verdict
    why: str
    scores: tuple[float | None, float | None] = (None, None)


@dataclass
class PairFinder:
    """Finds pairs in judged steps, and counts why others make none."""

    settings: RunPairs
    left_out: Counter[str] = field(default_factory=Counter)

    def find(self, steps: Sequence[JudgedStep]) -> list[_Found]:
        """Return all pairs of these steps in order, without duplicates."""
        found = [pair for step in steps for one in step.judged for pair in self._of_one(one, step)]
        return [*found, *self._of_several(steps)]

    def _of_one(self, one: JudgedImage, step: JudgedStep) -> Iterator[_Found]:
        said, answer = one.said, one.answer
        if said is None or said.success is None or answer is None or answer.success is None:
            self.left_out["the right verdict is unknown, or the critic gave none"] += 1
        elif one.overruled:
            yield from self._overruled(one, said, answer)
        elif (
            said.success
            or one.remedy not in ("person", "later try", "teacher")
            or _same(said.refined_prompt, answer.refined_prompt)
        ):
            self.left_out["the answer is right, or no better one is known"] += 1
        elif one.remedy == "later try" and not _drawn_and_refused(one, said, step):
            self.left_out["the critic's refined prompt was not used for an image"] += 1
        else:
            yield _Found(one, _as_said(answer, said), said, "remedy")

    def _overruled(self, one: JudgedImage, said: Verdict, answer: Verdict) -> Iterator[_Found]:
        if not answer.reasoning.strip() and not self.settings.without_reasoning:
            self.left_out["corrected without reasoning: write notes, or use --exact-reasoning"] += 1
        elif not answer.success and one.remedy == "none":
            self.left_out["corrected, but without a better prompt"] += 1
        else:
            yield _Found(one, answer, said, "overruled")

    def _of_several(self, steps: Sequence[JudgedStep]) -> Iterator[_Found]:
        outcomes: dict[tuple, list[tuple[JudgedImage, JudgedImage | None]]] = defaultdict(list)
        for step in steps:
            for one in step.judged:
                if one.said is not None and one.said.success is not None:
                    outcomes[one.before, one.after, one.original, one.used].append((one, _next(one, step)))
        for answers in outcomes.values():
            distinct = {
                one.said.model_copy(update={"probability": None}): (one, after)
                for one, after in answers
                if one.said
            }
            if len(distinct) < 2:
                continue
            truths = {one.answer.success for one, _ in answers if one.answer and one.source != "critic"}
            if len(truths) > 1:
                self.left_out["people or scores contradict each other"] += 1
                continue
            best = self._better([*distinct.values()], next(iter(truths), None))
            if best is None:
                self.left_out["several answers, none known to be better"] += 1
            else:
                yield best

    def _better(
        self, answers: list[tuple[JudgedImage, JudgedImage | None]], truth: bool | None
    ) -> _Found | None:
        if truth is not None:
            right = [one for one, _ in answers if one.said and one.said.success is truth]
            wrong = [one for one, _ in answers if one.said and one.said.success is not truth]
            if right and wrong and right[0].said and wrong[0].said:
                # The truth in the row comes from a reliable source, even if this run did not record it.
                known = replace(right[0], answer=right[0].said.model_copy(update={"success": truth}))
                return _Found(known, right[0].said, wrong[0].said, "two answers")
        refusals = [(one, after) for one, after in answers if one.said and one.said.success is False]
        scored = sorted(
            ((after.score.semantics, one) for one, after in refusals if after is not None and after.score),
            key=lambda pair: pair[0],
        )
        if truth is True or len(scored) < 2:
            return None
        (low, worse), (high, better) = scored[0], scored[-1]
        if high - low < max(self.settings.least_margin, 1e-9) or not (better.said and worse.said):
            return None
        known = replace(better, answer=better.said)
        return _Found(known, better.said, worse.said, "two answers", (high, low))


def _same(one: str, other: str) -> bool:
    return " ".join(one.split()).casefold() == " ".join(other.split()).casefold()


def _as_said(answer: Verdict, said: Verdict) -> Verdict:
    """Return the target answer, with the critic's own reasoning if it has none."""
    return answer if answer.reasoning.strip() else answer.model_copy(update={"reasoning": said.reasoning})


def _next(one: JudgedImage, step: JudgedStep) -> JudgedImage | None:
    """Return the image that was generated with the critic's refined prompt from the same source image."""
    if one.said is None or one.said.success is not False:
        return None
    later = (other for other in step.judged if other.attempt > one.attempt and other.before == one.before)
    return next((other for other in later if _same(other.used, one.said.refined_prompt)), None)


def _drawn_and_refused(one: JudgedImage, said: Verdict, step: JudgedStep) -> bool:
    later = [other for other in step.judged if other.attempt > one.attempt and other.before == one.before]
    return any(
        other.answer is not None and other.answer.success is False and _same(other.used, said.refined_prompt)
        for other in later
    )


def pairs_from_runs(converter: RunConverter, settings: RunPairs, runs: Sequence[Path], out: Path) -> Path:
    """Write pairs from run folders, with their images and report.json, into `out`.

    Args:
        converter: Settings of how runs are read (scorer, prompt set, success threshold, reasoning).
        settings: Settings of the pairs.
        runs: Run folders.
        out: Folder to write.

    Returns:
        The data file, `out / "critic_pairs.jsonl"`.

    Raises:
        SettingsError: No pairs could be created from these runs. Also as `RunConverter.read`.
    """
    check_place(out, {CRITIC_FILE, REPORT_FILE})
    steps, problems, _, screened = converter.read(runs, out)
    finder = PairFinder(settings)
    rows: dict[str, tuple[CriticPair, JudgedImage]] = {}
    for found in finder.find(steps):
        row = _row(found, converter.prompt_set)
        if row is None:
            finder.left_out["its text is not allowed in a row"] += 1
        else:
            rows.setdefault(row.line(), (row, found.judged))
    for reason, number in finder.left_out.most_common():
        converter.log(f"no pair for {number} images: {reason}")
    if not rows:
        raise SettingsError(
            "No preference pairs could be created from these runs.", "The lines above give the reasons."
        )
    made = [row for row, _ in rows.values()]
    counts = counted(made)
    warnings = show(counts, converter.log)
    report = {
        **counts.model_dump(),
        "left_out": dict(finder.left_out),
        "damaged": [str(problem) for problem in problems],
        "guard": screened.model_dump() if screened else None,
        "warnings": warnings,
        "settings": settings.model_dump(),
        "prompt_set": converter.prompt_set.digest,
    }
    with writing_folder(out, SettingsError, "Data folder") as temporary:
        (temporary / IMAGES).mkdir()
        for _, judged in rows.values():
            keep_images(temporary, judged, white=True)
        write_pairs(temporary / CRITIC_FILE, made)
        write_text(temporary / REPORT_FILE, json.dumps(report, indent=1) + "\n", SettingsError, "The report")
    return out / CRITIC_FILE


def _row(found: _Found, prompt_set: PromptSet) -> CriticPair | None:
    """Return the pair as a row, or None if its text is not allowed in a row."""
    judged = found.judged
    assert judged.answer is not None and judged.answer.success is not None
    try:
        asked = sft_row(replace(judged, remedy=None), prompt_set)
        chosen, rejected = (
            write_verdict(one.model_copy(update={"probability": None}), prompt_set.verdict_first)
            for one in (found.chosen, found.rejected)
        )
        return CriticPair(
            messages=asked.messages[:-1],
            images=asked.images,
            chosen=chosen,
            rejected=rejected,
            chosen_score=found.scores[0],
            rejected_score=found.scores[1],
            by=judged.source,
            why=found.why,
            truth=judged.answer.success,
        )
    except (AnswerError, SettingsError, ValueError):
        return None
