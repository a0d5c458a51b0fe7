"""What one seed of the ablation came to, outcome by outcome, small enough to be kept and sent: the table is
computed from these and from nothing else.

Decision: seeds may be run on several machines, or on one on several days, so a report has its seeds' outcomes
for another run to take in. Each outcome is a letter (1 right, 0 wrong, - unreadable): five seeds are 200 kB.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from ....backend.checkpoints.checkpoint import checkpoint_digest
from ....backend.errors import SettingsError, TrainingError
from ....backend.files.atomic import write_text
from ....backend.files.bounded_reader import read_json, read_text
from ....evaluation.checkout import UNKNOWN
from ..job_runner import LabJob
from ..runs.stories import StoryOutcome
from .measures import NextSteps, RefinedPrompts, RowOutcomes, StoredVerdicts, exact_plans, stored
from .pipeline import ROWS, all_jobs, measured, seed_folder, story_rows
from .settings import AblationSettings
from .stages import final

Letters = Annotated[str, StringConstraints(pattern=r"^[01-]*$", max_length=1_000_000)]
EXACT = {"planner": "plans", "one agent": "agent_plans"}
"""Who wrote whole plans, and the job that counted them."""
COMMITS, MAX_BYTES = "commits.txt", 4096
COMMIT = re.compile(rf"[0-9a-f]{{7,64}}|{UNKNOWN}")
WHICH = {"seeds", "first_seed", "teacher_seeds", "workers", "start"}
"""Settings that say which seeds are run, how and where, and not what is done for each."""


class _Part(BaseModel):
    """Part of a report, which may come from another machine."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class StoryLetters(_Part):
    """A row's stories at one number of attempts: right ones; for each the steps that are right, separated by
    spaces; images drawn in all."""

    right: Letters
    steps: Annotated[str, StringConstraints(pattern=r"^[01 ]*$", max_length=1_000_000)]
    draws: int = Field(ge=0)

    @property
    def outcomes(self) -> list[bool]:
        """Whether each story came out right."""
        return [letter == "1" for letter in self.right]


class VerdictLetters(_Part):
    """A critic's verdicts on a balanced set of real pages, beside the truth."""

    said: Letters
    truth: Letters

    @property
    def pairs(self) -> list[tuple[bool | None, bool]]:
        """What was said (None: unreadable) and what is true."""
        said = [None if letter == "-" else letter == "1" for letter in self.said]
        return list(zip(said, [letter == "1" for letter in self.truth], strict=True))


class RefinedLetters(_Part):
    """A critic on failed pages: whether it refused each, and whether its prompt was drawn right."""

    refused: Letters
    drawn_right: Letters


class SeedOutcomes(_Part):
    """Everything that the table needs of one seed; rows by name, minutes of one core by job."""

    seed: int = Field(ge=0)
    told: dict[str, dict[int, StoryLetters]]
    judged: dict[str, VerdictLetters]
    refined: dict[str, RefinedLetters]
    next_steps: Letters
    exact_plans: dict[str, float]
    minutes: dict[str, float]

    @model_validator(mode="after")
    def _whole(self) -> SeedOutcomes:
        missing = [name for name in ROWS if not self.told.get(name)]
        if missing or "sft" not in self.refined:
            raise ValueError(f"seed {self.seed} lacks {', '.join(missing) or 'its refined prompts'}")
        return self


class OutcomesRun(_Part):
    """A run that seeds come from: its command; the commits that worked at them, separated by spaces; digests
    of the base and the novice that it started from; its seeds; minutes of one core for what they share."""

    command: str
    commit: str
    start: str
    seeds: list[int]
    shared_minutes: dict[str, float]


class AblationOutcomes(_Part):
    """Seeds of one or several runs, all with the same settings."""

    settings: AblationSettings
    made: list[OutcomesRun]
    seeds: list[SeedOutcomes]


def outcomes_in(out: Path, settings: AblationSettings, command: str, commit: str) -> AblationOutcomes:
    """What the finished jobs below `out` found."""
    jobs = all_jobs(out, settings)
    shared = {job.folder.name: _minutes(job) for job in jobs if job.folder.parent == out / "shared"}
    by_commit: dict[str, list[int]] = {}
    for seed in settings.all_seeds:
        by_commit.setdefault(_commits(seed_folder(out, seed)) or commit, []).append(seed)
    start = start_of(out)
    made = [
        OutcomesRun(
            command=command,
            commit=commits,
            start=start,
            seeds=numbers,
            shared_minutes=shared if number == 0 else {},
        )
        for number, (commits, numbers) in enumerate(by_commit.items())
    ]
    seeds = [_of_seed(seed_folder(out, seed), seed, jobs) for seed in settings.all_seeds]
    return AblationOutcomes(settings=settings.model_copy(update={"start": None}), made=made, seeds=seeds)


def note_commit(out: Path, settings: AblationSettings, commit: str) -> None:
    """Write down with the seeds whose jobs are still to be done that this commit does them."""
    jobs = all_jobs(out, settings)
    for seed in settings.all_seeds:
        folder = seed_folder(out, seed)
        known = _commits(folder).split()
        if commit not in known and not all(job.done for job in jobs if job.folder.parent == folder):
            folder.mkdir(parents=True, exist_ok=True)
            text = " ".join([*known, commit]) + "\n"
            write_text(folder / COMMITS, text, TrainingError, "The note of a seed's commits")


def _commits(folder: Path) -> str:
    """The commits that worked at a seed, oldest first, separated by spaces; "" where that was not written
    down."""
    path = folder / COMMITS
    if not path.exists():
        return ""
    text = read_text(path, MAX_BYTES, TrainingError, "The note of a seed's commits").strip()
    if not all(COMMIT.fullmatch(commit) for commit in text.split()):
        raise TrainingError(f"{str(path)!r} names no commits: {text[:80]!r}.", "Delete it to go on.")
    return text


def start_of(out: Path) -> str:
    """Digests of the checkpoints that the seeds below `out` start from, separated by a space."""
    return " ".join(checkpoint_digest(final(out / "shared" / name)) for name in ("base", "novice"))


def read_report(path: Path) -> AblationOutcomes:
    """The outcomes in an `ablation.json`. Raises SettingsError for a file that is none."""
    stored = read_json(path, SettingsError)
    try:
        return AblationOutcomes.model_validate(stored["outcomes"])
    except (KeyError, TypeError, ValueError) as error:
        raise SettingsError(
            f"{str(path)!r} is no report of `evaluate ablation` ({error}).", "Give an ablation.json of one."
        ) from error


def check_together(runs: Sequence[tuple[AblationSettings, Sequence[int]]]) -> None:
    """Raise SettingsError unless runs with these settings and seeds make one table: settings are the same,
    and no seed stands in two of them."""
    first = runs[0][0].model_dump(exclude=WHICH)
    for settings, _ in runs[1:]:
        other = settings.model_dump(exclude=WHICH)
        wrong = [f"{name} ({first[name]} and {other[name]})" for name in first if first[name] != other[name]]
        if wrong:
            raise SettingsError(
                f"Runs with other settings make no table: {', '.join(wrong)}.", "Join like with like."
            )
    numbers = [number for _, seeds in runs for number in seeds]
    twice = sorted({number for number in numbers if numbers.count(number) > 1})
    if twice:
        raise SettingsError(
            f"Seeds in more than one run: {', '.join(map(str, twice))}.",
            "Give each of them once; --first-seed says with which a run begins.",
        )


def joined(several: Sequence[AblationOutcomes]) -> AblationOutcomes:
    """The seeds of several runs in the order of their numbers. Raises SettingsError for runs that do not
    belong together."""
    check_together([(one.settings, [seed.seed for seed in one.seeds]) for one in several])
    seeds = sorted((seed for one in several for seed in one.seeds), key=lambda seed: seed.seed)
    update = {"seeds": len(seeds), "first_seed": seeds[0].seed}
    made = [made for one in several for made in one.made]
    return AblationOutcomes(settings=several[0].settings.model_copy(update=update), made=made, seeds=seeds)


def _of_seed(folder: Path, seed: int, jobs: Sequence[LabJob]) -> SeedOutcomes:
    found = {
        name: RowOutcomes.model_validate_json(stored(measured(folder, name)))
        for name in story_rows(jobs, folder)
    }
    remedies = RefinedPrompts.model_validate_json(stored(measured(folder, "remedies")))
    next_steps = NextSteps.model_validate_json(stored(measured(folder, "next_steps")))
    return SeedOutcomes(
        seed=seed,
        told={
            name: {tries: _story_letters(ones) for tries, ones in one.told.items()}
            for name, one in found.items()
        },
        judged={name: _verdicts(one.judged) for name, one in found.items() if one.judged},
        refined={
            name: RefinedLetters(refused=_letters(refused), drawn_right=_letters(remedies.drawn_right[name]))
            for name, refused in remedies.refused.items()
        },
        next_steps=_letters([right for story in next_steps.right for right in story]),
        exact_plans={name: exact_plans(folder / job) for name, job in EXACT.items()},
        minutes={job.folder.name: _minutes(job) for job in jobs if job.folder.parent == folder},
    )


def _story_letters(ones: Sequence[StoryOutcome]) -> StoryLetters:
    return StoryLetters(
        right=_letters([one.right for one in ones]),
        steps=" ".join(_letters(one.steps) for one in ones),
        draws=sum(one.draws for one in ones),
    )


def _verdicts(judged: StoredVerdicts) -> VerdictLetters:
    return VerdictLetters(said=_letters(judged.said), truth=_letters(judged.truth))


def _letters(flags: Sequence[bool | None]) -> str:
    return "".join("-" if flag is None else str(int(flag)) for flag in flags)


def _minutes(job: LabJob) -> float:
    return round(job.seconds / 60, 1)
