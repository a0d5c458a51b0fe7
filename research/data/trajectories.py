"""Creates trajectories from thousands of prompts, each in a run folder of its own.

Prompts are rows `{"id", "user_input", "user_input_image"?}` of a JSONL file, which may come from others. A
row that cannot be used is listed with line and reason, and the others are used. Ids name folders, so they
contain only plain characters.

The only state is in the folders: a prompt is done when `execution_record.json` is in its folder, as in the
published scripts, so any call resumes where another one ended. Its outcome (state, reason, split, generator)
is in `sample.json`, which is written before it, and also of a prompt that failed. The shard, generator and
seed of a prompt depend only on its id. Other processes may work on the same prompts and folders. An
unavailable teacher or generator would fail thousands of prompts in minutes, so a series of failures ends the
call; they can be retried on request.
"""

from __future__ import annotations

import errno
import hashlib
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Generator as EventStream
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ...backend.core.errors import (
    AnswerError,
    ChatError,
    InterleaveError,
    JournalError,
    PictureError,
    SettingsError,
)
from ...backend.core.files.atomic import write_text
from ...backend.core.files.bounded_reader import read_bytes_if_any, read_json
from ...backend.core.files.image_places import ImagePlaces
from ...backend.core.files.lock import SystemLock
from ...backend.core.pictures import Picture
from ...backend.core.prompts.prompt_set import ENDING
from ...backend.core.seams.generator import Generator
from ...backend.core.shown_text import one_line
from ...backend.core.types import MAX_IMAGES, MAX_TEXT, Request, RunSettings, StopReason, Trajectory
from ...backend.core.types.values import DIRECT
from ...backend.output.exporters.record import FILE_NAME, write_record
from ...backend.story.agents.critic import Critic
from ...backend.story.agents.plan_constraints import ConstrainedPlanner, PlanConstraints
from ...backend.story.agents.planner import Planner
from ...backend.story.journal.journal import NAME as LOCK
from ...backend.story.journal.journal import Journal
from ...backend.story.journal.run_files import ATTEMPTS, PICTURES, RUN, VERDICTS
from ...backend.story.loop.collaborators import Collaborators
from ...backend.story.loop.events import Event, Finished, PlanReady
from ...backend.story.loop.loop import run
from ...backend.story.loop.policy import hashed_seed
from ...backend.story.loop.replay import load_trajectory
from ...training.from_runs.run_folders import SAMPLE
from ...training.rows.values import RowProblem, read_values, show_problems

MAX_NAME = 80
MAX_NAME_BYTES = 200
"""Maximum bytes of a folder's name after the id; file systems allow 255 for both."""


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _as_list(value: object) -> object:
    """Return the images of a row as a list; an empty text is left out."""
    several = value if isinstance(value, list | tuple) else [value]
    return [one for one in several if one not in (None, "")]


Short = Annotated[str, Field(max_length=200)]
Name = Annotated[str, Field(min_length=1, max_length=4096)]


class PromptRow(BaseModel):
    """A row of a prompt file; unknown keys are ignored. `user_input_image` may be one path or several."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: Annotated[str, BeforeValidator(_as_text), Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,47}$")]
    user_input: str = Field(min_length=1, max_length=MAX_TEXT)
    user_input_image: Annotated[tuple[Name, ...], BeforeValidator(_as_list)] = Field(
        default=(), max_length=MAX_IMAGES
    )
    category: Short = ""
    split: Short = ""

    @property
    def folder(self) -> str:
        """Name of its folder, by the published rule: the id, and the text without special characters."""
        # As in two of the three published scripts.
        text = self.user_input.replace(ENDING, "")
        name = re.sub(r"\s+", "_", re.sub(r"[^\w\s-]", "_", text))[:MAX_NAME]
        return f"{self.id}_{name.encode()[:MAX_NAME_BYTES].decode(errors='ignore')}"

    @property
    def digest(self) -> int:
        """64 bits of its id, which determine shard, generator and seed."""
        return int.from_bytes(hashlib.blake2b(self.id.encode(), digest_size=8).digest(), "big")


@dataclass(frozen=True)
class Prompt:
    """A row with its images.

    Attributes:
        row: The row.
        images: Its images.
    """

    row: PromptRow
    images: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Shard:
    """Part `number` (from 0) of `count` of all prompts, by a digest of their ids."""

    number: int = 0
    count: int = 1

    @classmethod
    def read(cls, text: str) -> Shard:
        """Parse `i/n`.

        Raises:
            SettingsError: The text is not a shard.
        """
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
        number, count = (int(one) for one in found.groups()) if found else (1, 0)
        if number >= count:
            raise SettingsError(f"{text!r} is not a shard.", "Write i/n with i from 0 to n-1, such as 0/8.")
        return cls(number, count)

    def of(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        """Return the prompts that belong to this shard."""
        return [prompt for prompt in prompts if prompt.row.digest % self.count == self.number]

    @property
    def suffix(self) -> str:
        """Suffix of the shard's files; empty with a single shard."""
        return f".{self.number}-of-{self.count}" if self.count > 1 else ""


@dataclass(frozen=True)
class PromptFile:
    """A prompt file, an additional folder of images and a limit of prompts."""

    path: Path
    images: Path | None = None
    limit: int | None = None

    def read(self) -> tuple[list[Prompt], list[RowProblem]]:
        """Read the prompts in order.

        Returns:
            (prompts, problems of other rows).

        Raises:
            SettingsError: The file cannot be read or has no valid prompt.
        """
        places = ImagePlaces(self.path.parent, SettingsError, self.images)
        prompts: list[Prompt] = []
        problems: list[RowProblem] = []
        seen: set[str] = set()
        for place, item in read_values(self.path):
            found = item if isinstance(item, RowProblem) else _prompt(place, item, places, seen)
            if isinstance(found, RowProblem):
                problems.append(found)
                continue
            # On case-insensitive file systems equal ids would share a folder.
            seen.add(found.row.id.lower())
            prompts.append(found)
            if len(prompts) == self.limit:
                break
        if not prompts:
            first = f" The first problem: {problems[0]}" if problems else ""
            hint = 'A line is {"id": "a1", "user_input": "..."}.'
            raise SettingsError(f"{str(self.path)!r} does not contain a valid prompt.{first}", hint)
        return prompts, problems


def _prompt(place: str, item: Any, places: ImagePlaces, seen: set[str]) -> Prompt | RowProblem:
    try:
        row = PromptRow.model_validate(item)
        row.user_input.encode()
    except ValidationError as error:
        return RowProblem.of(place, error)
    except UnicodeEncodeError:
        return RowProblem(place, "user_input", "it is not valid text")
    if not row.user_input.strip():
        return RowProblem(place, "user_input", "it is empty")
    if row.id.lower() in seen:
        return RowProblem(place, "id", f"duplicate id {row.id!r}")
    images: list[Path] = []
    for name in row.user_input_image:
        try:
            file = places.find(name)
        except SettingsError as error:
            return RowProblem(place, "user_input_image", error.message)
        if file is None:
            return RowProblem(place, "user_input_image", f"{name!r} was not found (set --images)")
        images.append(file)
    return Prompt(row, tuple(images))


REPORT = "report{}.json"
MAX_FILE = 1024 * 1024 * 1024
MAX_REASON = 500
OUTAGE = 20
"""Consecutive failures, of different prompts, that count as an outage."""
SHOWN_EVERY = 10.0
"""Seconds between two lines of progress."""
MAX_REASONS = 8
"""Reasons of failures in the table."""
ELSEWHERE, DISK = "elsewhere", "disk"
"""Places of stopped prompts: another process works on it, the disk is full."""
GOOD = frozenset({StopReason.accepted, StopReason.picked, StopReason.unjudged, StopReason.text_only})
FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
State = Literal["whole", "given up", "failed", "stopped"]
Log = Callable[[str], None]


class PartOptions(BaseModel):
    """Part of the work of a command that carries out many requests."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    shard: str = Field(
        default="0/1", description="Use only part i of n, written as i/n. Prompts are assigned by their id."
    )
    retry_failed: bool = Field(default=False, description="Also retry prompts that failed before.")


class TrajectoryOptions(PartOptions):
    """Options of which prompts are used, and how far.

    The defaults are those of a teacher: a step that is never accepted ends its trajectory, since later steps
    would be learned from a wrong image.
    """

    max_attempts: int = Field(
        default=5,
        ge=1,
        le=100,
        description="Maximum number of attempts per step, including the first.",
        json_schema_extra=DIRECT,
    )
    max_draws: int = Field(
        default=25, ge=1, le=10_000, description="Maximum number of attempts per trajectory (published: 15)."
    )
    go_on: bool = Field(
        default=False, description="Continue after a step that is never accepted, with its best image."
    )
    accept_at: float | None = Field(
        default=None, ge=0, le=1, description="Accept at this P(success). Default: the critic's own verdict."
    )
    seed: int = Field(
        default=0,
        ge=0,
        le=2**48,
        description="Base seed, from which every prompt's seed is derived.",
        json_schema_extra=DIRECT,
    )

    def run_settings(self) -> RunSettings:
        """Return the settings of the loop."""
        return RunSettings(
            max_attempts=self.max_attempts,
            max_draws=self.max_draws,
            on_failure="keep" if self.go_on else "stop",
            accept_at=self.accept_at,
            seed=self.seed,
        )


class PromptOutcome(BaseModel):
    """Outcome of one prompt, as in `sample.json`.

    The state is `whole` (every step was accepted), `given up` (a step never was, or the attempt limit was
    reached), `failed` (an error at `where`) or `stopped` (the next call resumes it).
    """

    model_config = ConfigDict(extra="ignore")

    id: str
    folder: str
    state: State
    where: str = ""
    reason: str = ""
    generator: str = ""
    split: str = ""

    @property
    def is_done(self) -> bool:
        """Whether the trajectory is finished."""
        return self.state in ("whole", "given up")


def noted(
    row: PromptRow, state: State, reason: str = "", where: str = "", generator: str = ""
) -> PromptOutcome:
    """Return an outcome of this row."""
    return PromptOutcome(
        id=row.id,
        folder=row.folder,
        state=state,
        where=where,
        reason=one_line(reason)[:MAX_REASON],
        generator=generator,
        split=row.split,
    )


def outcome_of(row: PromptRow, generator: str, trajectory: Trajectory) -> PromptOutcome:
    """Return the outcome of a finished trajectory."""
    results = trajectory.results
    if len(results) == len(trajectory.plan.steps) and all(one.stop_reason in GOOD for one in results):
        return noted(row, "whole", generator=generator)
    faults = [attempt.error for attempt in results[-1].attempts if attempt.error] if results else []
    if faults:
        return noted(row, "failed", faults[-1].message, faults[-1].where, generator)
    given_up = results and results[-1].stop_reason not in GOOD
    last = f"step {results[-1].step.number} was not accepted" if given_up else "the attempt limit was reached"
    return noted(row, "given up", last, generator=generator)


def is_done(folder: Path) -> bool:
    """Return whether a prompt's folder contains a record, ours or that of the published scripts."""
    return (folder / FILE_NAME).exists()


def read_outcome(folder: Path) -> PromptOutcome | None:
    """Return the content of `sample.json` in a run's folder, or None.

    Raises:
        JournalError: The file is damaged.
    """
    found = read_bytes_if_any(folder / SAMPLE, MAX_FILE, JournalError, "Sample")
    try:
        return None if found is None else PromptOutcome.model_validate_json(found)
    except ValidationError as error:
        raise JournalError(f"{str(folder / SAMPLE)!r} is damaged.", "Delete it.") from error


def write_outcome(folder: Path, outcome: PromptOutcome) -> None:
    """Write `sample.json` into a run's folder.

    Raises:
        JournalError: The file cannot be written.
    """
    write_text(folder / SAMPLE, outcome.model_dump_json(indent=1) + "\n", JournalError, "Sample")


def _image_place(picture: Picture, stem: str) -> str:
    return f"{PICTURES}/{picture.digest}.png"


def seconds_of(folder: Path) -> float:
    """Return the time that generator and critic took for a run, by its journal.

    Raises:
        JournalError: A file is damaged.
    """
    files = [path for name in (ATTEMPTS, VERDICTS) for path in sorted((folder / name).glob("*.json"))]
    return round(sum(float(read_json(path, JournalError).get("seconds", 0)) for path in files), 3)


@dataclass(frozen=True)
class Teachers:
    """The opened models: planner, critic (or None), and generators with their names on the command line."""

    planner: Planner
    critic: Critic | None
    generators: tuple[tuple[str, Generator], ...]
    constraints: PlanConstraints = field(default_factory=PlanConstraints)


OpenTeachers = Callable[[], Teachers]
"""Opens the models. Raises InterleaveError."""


class Stop:
    """Tells all threads of a call to start no more work."""

    def __init__(self) -> None:
        self.reason = ""

    def set(self, reason: str) -> None:
        """Stop; the first reason is kept."""
        self.reason = self.reason or reason


class _Worker:
    """Carries out prompts, in several threads."""

    def __init__(self, out: Path, teachers: Teachers, settings: RunSettings, stop: Stop) -> None:
        self._out, self._teachers, self._settings, self._stop = out, teachers, settings, stop
        # Such a generator can work on only one story at a time.
        self._alone = {
            name: threading.Lock() if drawer.follows_anchor else nullcontext()
            for name, drawer in teachers.generators
        }

    def outcomes(self, prompts: Sequence[Prompt], parallel: int) -> Iterator[PromptOutcome]:
        """Yield outcomes as they are ready; `parallel` prompts are begun at a time, and none after a stop."""
        source, begun = iter(prompts), set[Future[PromptOutcome]]()
        with ThreadPoolExecutor(parallel, thread_name_prefix="work") as pool:
            try:
                while True:
                    room = 0 if self._stop.reason else parallel - len(begun)
                    begun |= {pool.submit(self.carry_out, prompt) for prompt in islice(source, room)}
                    if not begun:
                        return
                    ready = wait(begun, return_when=FIRST_COMPLETED).done
                    begun -= ready
                    for future in ready:
                        yield future.result()
            finally:
                # The iterator was closed, or a thread raised: the others end at their next event.
                if begun:
                    self._stop.set("stopped")

    def carry_out(self, prompt: Prompt) -> PromptOutcome:
        """Run one prompt, from where its folder ends. Any error of a prompt is returned as its outcome."""
        row, folder = prompt.row, self._out / prompt.row.folder
        if is_done(folder) and (found := read_outcome(folder)):
            return found
        if self._stop.reason or _in_use(folder):
            return noted(row, "stopped", where="" if self._stop.reason else ELSEWHERE)
        generators = self._teachers.generators
        name, generator = generators[row.digest // 2**32 % len(generators)]
        try:
            with self._alone[name]:
                return self._carried_out(prompt, folder, name, generator)
        except JournalError as error:
            if _in_use(folder):
                return noted(row, "stopped", where=ELSEWHERE)
            # A full disk is not an error of the prompt: it is resumed once there is room again.
            state, where = ("stopped", DISK) if _is_full(error) else ("failed", "folder")
            return noted(row, state, str(error), where=where, generator=name)
        except InterleaveError as error:
            return noted(row, "failed", str(error), where="prompt", generator=name)

    def _carried_out(self, prompt: Prompt, folder: Path, name: str, generator: Generator) -> PromptOutcome:
        where, row = "planner", prompt.row
        try:
            with closing(self._events(prompt, folder, generator)) as events:
                for event in events:
                    if isinstance(event, Finished):
                        outcome = outcome_of(row, name, event.trajectory)
                        if outcome.is_done:
                            write_outcome(folder, outcome)
                            write_record(event.trajectory, folder, _image_place)
                        return outcome
                    if isinstance(event, PlanReady):
                        where = "critic"
                    if self._stop.reason:
                        break
        except (AnswerError, ChatError) as error:
            return noted(row, "failed", str(error), where=where, generator=name)
        return noted(row, "stopped", generator=name)

    def _events(self, prompt: Prompt, folder: Path, generator: Generator) -> EventStream[Event, None, None]:
        for path in prompt.images:
            if not path.is_file():
                raise PictureError(f"The image {str(path)!r} no longer exists.")
        request = Request(text=prompt.row.user_input, images=tuple(map(Picture.open, prompt.images)))
        teachers, settings = self._teachers, self._settings
        events = run(
            request,
            Collaborators(
                ConstrainedPlanner(teachers.planner, teachers.constraints),
                generator,
                teachers.critic,
            ),
            settings.model_copy(update={"seed": hashed_seed(f"{settings.seed}/{prompt.row.id}")}),
            Journal(folder),
        )
        # A run is a generator, so that its consumer can stop it.
        return cast("EventStream[Event, None, None]", events)


def _is_full(error: BaseException | None) -> bool:
    """Return whether the cause of an error is a full disk or an exceeded quota."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        error = error.__cause__
    return False


def _in_use(folder: Path) -> bool:
    """Return whether another process is writing to the folder."""
    if not (folder / RUN).exists():
        return False
    lock = SystemLock(folder / LOCK)
    if not lock.take():
        return True
    lock.release()
    return False


class Totals(BaseModel):
    """Number of trajectories by state, and of those given up or failed by reason."""

    prompts: int = 0
    whole: int = 0
    given_up: int = 0
    failed: int = 0
    to_do: int = 0
    reasons: dict[str, int] = {}

    @classmethod
    def of(cls, prompts: int, outcomes: Iterable[PromptOutcome]) -> Totals:
        """Return the totals of these outcomes, one per prompt; other prompts count as remaining."""
        states, reasons = Counter[str](), Counter[str]()
        for one in outcomes:
            states[one.state.replace(" ", "_")] += 1
            if one.reason:
                reasons[f"{one.state}{one.where and f' at {one.where}'}: {one.reason[:100]}"] += 1
        to_do = prompts - states.total()
        return cls(prompts=prompts, to_do=to_do, reasons=dict(reasons.most_common()), **states)

    def as_lines(self) -> Iterator[str]:
        """Yield the summary tables."""
        yield "| trajectories | whole | given up | failed | to do |"
        yield "|---" * 5 + "|"
        yield f"| {self.prompts} | {self.whole} | {self.given_up} | {self.failed} | {self.to_do} |"
        for reason, count in list(self.reasons.items())[:MAX_REASONS]:
            yield f"{count} {reason}"


@dataclass
class TrajectoriesReport:
    """Result of a call; `stopped` is the reason if it ended before the last prompt."""

    totals: Totals
    stopped: str = ""
    left_out: int = 0


@dataclass(frozen=True)
class Trajectories:
    """Creates trajectories in the folder `out` with these models, `parallel` at a time."""

    out: Path
    teachers: OpenTeachers
    options: TrajectoryOptions
    parallel: int = 1
    settings: RunSettings | None = None
    log: Log = print

    def make(self, prompts: PromptFile | Sequence[Prompt]) -> TrajectoriesReport:
        """Create the trajectories that are not done yet.

        Raises:
            SettingsError: A prompt file or folder cannot be used.
            JournalError: A run folder cannot be used.
            InterleaveError: A model cannot be opened.
        """
        shard = Shard.read(self.options.shard)
        rows, problems = prompts.read() if isinstance(prompts, PromptFile) else (prompts, list[RowProblem]())
        show_problems(problems, len(rows), self.log)
        mine = shard.of(rows)
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(f"Cannot create {str(self.out)!r}: {error}.", "Give another.") from error
        found = {one.row.id: self._outcome(one) for one in mine}
        done = [one for one in found.values() if one and one.is_done]
        left_out = () if self.options.retry_failed else ("failed",)
        todo = [
            one
            for one in mine
            if (it := found[one.row.id]) is None or not (it.is_done or it.state in left_out)
        ]
        self.log(f"{len(mine)} prompts: {len(done)} done, {len(todo)} to do")
        stop, left = Stop(), Counter[str]()
        try:
            if todo:
                self._carry_out(todo, stop, left)
        except KeyboardInterrupt:
            stop = Stop()
            stop.set("interrupted")
        if left[ELSEWHERE]:
            stop.set(f"another process is working on {left[ELSEWHERE]} of them")
        return self._conclude(shard, mine, TrajectoriesReport(Totals(), stop.reason, len(problems)))

    def _carry_out(self, todo: Sequence[Prompt], stop: Stop, left: Counter[str]) -> None:
        """Run the remaining prompts; `left` counts the stopped ones by place."""
        settings = self.settings or self.options.run_settings()
        worker = _Worker(self.out, self.teachers(), settings, stop)
        in_a_row, finished, shown = 0, 0, time.monotonic()
        for outcome in worker.outcomes(todo, self.parallel):
            if outcome.state == "stopped":
                left[outcome.where] += 1
                if outcome.where == DISK:
                    stop.set(f"the disk is full. {outcome.reason}")
                continue
            finished += 1
            if outcome.state == "failed":
                write_outcome(self.out / outcome.folder, outcome)
                self.log(f"{outcome.id}: failed at {outcome.where}: {outcome.reason}")
                in_a_row += outcome.where != "prompt"
            else:
                in_a_row = 0
            if in_a_row >= OUTAGE:
                stop.set(f"{OUTAGE} consecutive prompts failed; use retry_failed to try them again")
            if time.monotonic() - shown >= SHOWN_EVERY:
                shown = time.monotonic()
                self.log(f"{finished}/{len(todo)} prompts finished")

    def _conclude(self, shard: Shard, mine: Sequence[Prompt], made: TrajectoriesReport) -> TrajectoriesReport:
        outcomes = [found for one in mine if (found := self._outcome(one)) is not None]
        made.totals = Totals.of(len(mine), outcomes)
        if made.totals.to_do == 0:
            made.stopped = ""
        report = made.totals.model_dump_json(indent=1) + "\n"
        write_text(self.out / REPORT.format(shard.suffix), report, JournalError, "Report")
        for line in ("", *made.totals.as_lines()):
            self.log(line)
        if made.stopped:
            self.log(f"\nStopped: {made.stopped}. Run the command again to resume.")
        return made

    def _outcome(self, prompt: Prompt) -> PromptOutcome | None:
        """Return the outcome of a finished or failed prompt, including one of the published scripts."""
        folder = self.out / prompt.row.folder
        found = read_outcome(folder)
        if not is_done(folder):
            return found if found and found.state == "failed" else None
        try:
            return found or outcome_of(prompt.row, "", load_trajectory(folder))
        except JournalError:
            return noted(prompt.row, "given up", "record from another program")
