"""Outcomes of each seed of the ablation, compact enough to store and send. The table is computed from them.

Seeds can run on several machines or days, so a report contains its seeds' outcomes for other runs to include.
Each outcome is one letter (1 correct, 0 wrong, - unreadable): five seeds take 200 kB.
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
from ....evaluation.benchmark_run import UNKNOWN
from ..job_runner import LabJob
from ..runs.stories import StoryOutcome
from .measures import NextSteps, RefinedPrompts, RowOutcomes, StoredVerdicts, exact_plans, stored
from .pipeline import ROWS, all_jobs, measured, seed_folder
from .settings import AblationSettings
from .stages import final

Letters = Annotated[str, StringConstraints(pattern=r"^[01-]*$", max_length=1_000_000)]
EXACT = {"planner": "plans", "one agent": "agent_plans"}
"""The agents that wrote whole plans, and the job that counted them."""
COMMITS, MAX_BYTES = "commits.txt", 4096
COMMIT = re.compile(rf"[0-9a-f]{{7,64}}|{UNKNOWN}")
WHICH = {"seeds", "first_seed", "workers", "start"}
"""Settings that select which seeds run, where and how, but not what is done for each."""


class _Part(BaseModel):
    """Part of a report, which may come from another machine."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class StoryLetters(_Part):
    """Stories of a row with one number of attempts.

    Attributes:
        right: Whether each story is correct.
        steps: Whether each step is correct, with a space between stories.
        draws: Total number of generated images.
    """

    right: Letters
    steps: Annotated[str, StringConstraints(pattern=r"^[01 ]*$", max_length=1_000_000)]
    draws: int = Field(ge=0)

    @property
    def outcomes(self) -> list[bool]:
        """Whether each story is correct."""
        return [letter == "1" for letter in self.right]


class VerdictLetters(_Part):
    """A critic's verdicts on a balanced set of generated images, with the truth."""

    said: Letters
    truth: Letters

    @property
    def pairs(self) -> list[tuple[bool | None, bool]]:
        """Pairs of the verdict (`None`: unreadable) and the truth."""
        said = [None if letter == "-" else letter == "1" for letter in self.said]
        return list(zip(said, [letter == "1" for letter in self.truth], strict=True))


class RefinedLetters(_Part):
    """A critic on failed images: whether it rejected each, and whether its prompt gave a correct image."""

    refused: Letters
    drawn_right: Letters


class SeedOutcomes(_Part):
    """Everything that the table needs from one seed: rows by name, minutes of one core by job."""

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
    """A run that contributed seeds.

    Attributes:
        command: Its command.
        commit: Commits that its jobs ran with, separated by spaces.
        start: Digests of the base and the novice that it started from.
        seeds: Its seeds.
        shared_minutes: Minutes of one core for jobs shared by the seeds.
    """

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
    """Read the results of the finished jobs below `out`."""
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
    """Record this commit in the folders of seeds that still have jobs to do."""
    jobs = all_jobs(out, settings)
    for seed in settings.all_seeds:
        folder = seed_folder(out, seed)
        known = _commits(folder).split()
        if commit not in known and not all(job.done for job in jobs if job.folder.parent == folder):
            folder.mkdir(parents=True, exist_ok=True)
            text = " ".join([*known, commit]) + "\n"
            write_text(folder / COMMITS, text, TrainingError, "The list of a seed's commits")


def _commits(folder: Path) -> str:
    """Return the commits that ran a seed's jobs, oldest first, separated by spaces; empty if not recorded."""
    path = folder / COMMITS
    if not path.exists():
        return ""
    text = read_text(path, MAX_BYTES, TrainingError, "The list of a seed's commits").strip()
    if not all(COMMIT.fullmatch(commit) for commit in text.split()):
        raise TrainingError(
            f"{str(path)!r} is not a list of commits: {text[:80]!r}.", "Delete it to continue."
        )
    return text


def start_of(out: Path) -> str:
    """Return the digests of the checkpoints that the seeds below `out` start from, separated by a space."""
    return " ".join(checkpoint_digest(final(out / "shared" / name)) for name in ("base", "novice"))


def read_report(path: Path) -> AblationOutcomes:
    """Read the outcomes in an `ablation.json`.

    Raises:
        SettingsError: If the file is not such a report.
    """
    stored = read_json(path, SettingsError)
    try:
        return AblationOutcomes.model_validate(stored["outcomes"])
    except (KeyError, TypeError, ValueError) as error:
        raise SettingsError(
            f"{str(path)!r} is not a report of `evaluate ablation` ({error}).",
            "Pass the ablation.json of a finished ablation.",
        ) from error


def check_together(runs: Sequence[tuple[AblationSettings, Sequence[int]]]) -> None:
    """Check that runs with these settings and seeds can form one table.

    Raises:
        SettingsError: If the settings differ, or a seed occurs twice.
    """
    first = runs[0][0].model_dump(exclude=WHICH)
    for settings, _ in runs[1:]:
        other = settings.model_dump(exclude=WHICH)
        wrong = [f"{name} ({first[name]} and {other[name]})" for name in first if first[name] != other[name]]
        if wrong:
            raise SettingsError(
                f"Runs with different settings cannot form one table: {', '.join(wrong)}.",
                "Include only runs with the same settings.",
            )
    numbers = [number for _, seeds in runs for number in seeds]
    twice = sorted({number for number in numbers if numbers.count(number) > 1})
    if twice:
        raise SettingsError(
            f"These seeds occur in more than one run: {', '.join(map(str, twice))}.",
            "Include each seed once; --first-seed sets the first seed of a run.",
        )


def joined(several: Sequence[AblationOutcomes]) -> AblationOutcomes:
    """Join the seeds of several runs, ordered by number.

    Raises:
        SettingsError: If the runs cannot form one table.
    """
    check_together([(one.settings, [seed.seed for seed in one.seeds]) for one in several])
    seeds = sorted((seed for one in several for seed in one.seeds), key=lambda seed: seed.seed)
    update = {"seeds": len(seeds), "first_seed": seeds[0].seed}
    made = [made for one in several for made in one.made]
    return AblationOutcomes(settings=several[0].settings.model_copy(update=update), made=made, seeds=seeds)


def _of_seed(folder: Path, seed: int, jobs: Sequence[LabJob]) -> SeedOutcomes:
    found = {name: RowOutcomes.model_validate_json(stored(measured(folder, name))) for name in ROWS}
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
