"""Builds preference pairs from a model's own answers: the best against the worst of several sampled ones.

Questions, rewards and judges are those of GRPO training (its task). Preference training thus teaches what
GRPO training would, in one pass over the data and without rollouts. Plans that earlier runs wrote for the
same request are treated like sampled ones.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic

from ....backend.answers.reading import write_plan
from ....backend.errors import AnswerError, JournalError, PictureError, SettingsError, TrainingError
from ....backend.feedback.sft_row import MARK
from ....backend.files.atomic import write_text, writing_folder
from ....backend.loop.replay import load_trajectory
from ....backend.pictures import Picture
from ....backend.prompts import default_prompt_set, prompt_set_of
from ...content_cache import ContentCache
from ...data.from_runs.run_folders import find_runs
from ...data.rows.planner_rl import PlannerRlRow
from ...data.rows.preference import (
    CRITIC_FILE,
    PLANNER_FILE,
    CriticPair,
    PlannerPair,
    PreferenceRow,
    write_pairs,
)
from ...data.rows.rl import CriticRlRow
from ...data.rows.row_folder import IMAGES, check_place, keep_image
from ...grpo.task import Found, Row, Task
from ...reward.rollout_reward import RolloutReading, mean
from ...trainer.step_clock import StepClock
from .choosing import Worth, best_and_worst, counted, show
from .from_runs import REPORT_FILE
from .sampling import SampledPairs, sampled_answers

AT_ONCE = 64
"""Number of answers that are rewarded in one call."""


@dataclass(frozen=True)
class SampledRows(Generic[Row]):
    """Rows whose questions the model answers, with image paths relative to `images`.

    `given` contains further answers by row (its JSON line), in addition to the sampled ones.
    """

    rows: Sequence[Row]
    images: Path
    given: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class PairMaker(Generic[Row, Found]):
    """Makes pairs from a checkpoint's answers, which are rewarded by a GRPO task.

    An interrupted call is resumed from `OUT.work`, which contains answers, generated and scored images, and
    judgments.
    """

    checkpoint: Path
    task: Task[Row, Found]
    settings: SampledPairs
    log: Callable[[str], None] = print

    def make(self, data: SampledRows[Row], out: Path) -> Path:
        """Write the pairs with their images and report.json into `out`.

        Returns:
            The data file.

        Raises:
            SettingsError: No row gives a pair.
            TrainingError: Rewards cannot be computed at present.
        """
        name = CRITIC_FILE if self.task.agent == "critic" else PLANNER_FILE
        check_place(out, {CRITIC_FILE, PLANNER_FILE, REPORT_FILE})
        work = out.with_name(f"{out.name}.work")
        prompt_set = prompt_set_of(self.checkpoint) or default_prompt_set()
        shown = work / "shown"
        questions = [
            self.task.question(row, data.images, shown, prompt_set, self.settings.pixels) for row in data.rows
        ]
        kept = ContentCache(work / "samples.sqlite", "The answers' file")
        try:
            answers = sampled_answers(self.checkpoint, questions, self.settings, kept, self.log)
        finally:
            kept.close()
        answers = [
            [*some, *data.given.get(self.task.written(row), ())]
            for row, some in zip(data.rows, answers, strict=True)
        ]
        reading = RolloutReading(data.images, str, prompt_set.verdict_first, self.settings.seed)
        reward = self.task.reward(work, reading, work, StepClock())
        worths = asyncio.run(self._worths(reward, data.rows, answers))
        chosen = [best_and_worst(some, self.settings.least_margin) for some in worths]
        pairs = [
            (row, question, pair)
            for row, question, pair in zip(data.rows, questions, chosen, strict=True)
            if pair is not None
        ]
        self._say(worths, len(pairs))
        if not pairs:
            raise SettingsError(
                "No preference pairs: the answers to each question have the same reward.",
                "Raise --temperature or --samples, or use other rows.",
            )
        who = "; ".join(self.task.rewarders().values())
        with writing_folder(out, SettingsError, "Data folder") as temporary:
            (temporary / IMAGES).mkdir()
            made = [_row(row, question, pair, who, temporary) for row, question, pair in pairs]
            report = {
                **counted(made).model_dump(),
                "questions": len(data.rows),
                "warnings": show(counted(made), self.log),
                "rewarded_by": self.task.rewarders(),
                "settings": self.settings.model_dump(),
            }
            write_pairs(temporary / name, made)
            write_text(
                temporary / REPORT_FILE, json.dumps(report, indent=1) + "\n", SettingsError, "The report"
            )
        return out / name

    async def _worths(
        self, reward: Any, rows: Sequence[Row], answers: Sequence[Sequence[str]]
    ) -> list[list[Worth]]:
        flat = [(number, answer) for number, some in enumerate(answers) for answer in some]
        worths: list[list[Worth]] = [[] for _ in rows]
        for start in range(0, len(flat), AT_ONCE):
            part = flat[start : start + AT_ONCE]
            samples, _ = await reward.judged([answer for _, answer in part], [rows[at] for at, _ in part])
            for (at, answer), sample in zip(part, samples, strict=True):
                worths[at].append(Worth(answer, sample.overall))
            done = min(start + AT_ONCE, len(flat))
            problem = reward.problem_at_end if done == len(flat) else reward.problem
            if problem is not None:
                raise TrainingError(
                    f"Cannot make pairs: {problem}", "Fix the problem, then run the same command again."
                )
            if start // AT_ONCE % 10 == 9 or done == len(flat):
                self.log(f"{done} of {len(flat)} answers rewarded")
        return worths

    def _say(self, worths: Sequence[Sequence[Worth]], pairs: int) -> None:
        known = [one.worth for some in worths for one in some if one.worth is not None]
        failed = sum(one.worth is None for some in worths for one in some)
        self.log(
            f"{len(known)} answers with a mean reward of {mean(known):.3f}, {failed} without a reward; "
            f"{pairs} of {len(worths)} questions have answers that differ by {self.settings.least_margin:g}"
        )


def _row(
    row: Any, question: dict[str, Any], pair: tuple[Worth, Worth], by: str, folder: Path
) -> PreferenceRow:
    """Return the pair as a row, and copy its images into `folder`."""
    best, worst = pair
    fields: dict[str, Any] = {
        "messages": [
            {"role": turn["role"], "content": _text(turn["content"])} for turn in question["prompt"]
        ],
        "images": [keep_image(Picture.open(path), folder) for path in question["images"]],
        "chosen": best.answer,
        "rejected": worst.answer,
        "chosen_score": best.worth,
        "rejected_score": worst.worth,
        "by": by[:2000],
        "why": "best of samples",
    }
    if isinstance(row, CriticRlRow):
        return CriticPair(**fields, truth=row.evaluation.success)
    assert isinstance(row, PlannerRlRow)
    known = {name: getattr(row, name) for name in ("request", "checklist", "reference", "steps")}
    return PlannerPair(**fields, **known)


def _text(content: Sequence[Mapping[str, Any]]) -> str:
    return "".join(MARK if part["type"] == "image" else str(part["text"]) for part in content)


def plans_of_runs(
    runs: Sequence[Path], rows: Sequence[PlannerRlRow], skip_bad: bool, log: Callable[[str], None]
) -> dict[str, list[str]]:
    """Return the plans that runs wrote for the rows' requests, as answers by the row's JSON line.

    Requests with images are skipped, because the images would have to be identical.

    Raises:
        JournalError: A run is damaged, and `skip_bad` is false.
    """
    wanted = {row.request: row.line() for row in rows if not row.images}
    found: dict[str, list[str]] = {}
    for folder, name in find_runs(runs) if runs else []:
        try:
            run = load_trajectory(folder)
            line = wanted.get(run.request.text)
            if line is not None and not run.request.images:
                found.setdefault(line, []).append(write_plan(run.plan))
        except AnswerError:
            log(f"the plan of run {name} contains text that is not allowed in a row")
        except (JournalError, PictureError) as error:
            if not skip_bad:
                raise JournalError(f"Run {name!r}: {error.message}", error.hint) from error
            log(f"skipped run {name}: {error.message}")
    if runs:
        log(
            f"found {sum(map(len, found.values()))} plans from runs, for {len(found)} of {len(rows)} requests"
        )
    return found
