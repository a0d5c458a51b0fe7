"""A planner's fine-tuning rows from trajectories: complete plans, continuations, counts and descriptions.

Only trajectories in which every step was accepted are used, since a plan whose images could not be generated
is not a good plan. Every question uses the prompt template of the planner to train, like a user's request,
so that training matches use. The step at which a continuation begins, and its phrasing, are derived from the
prompt's id: the same trajectories give the same rows.

CoMM shows and describes steps, but has neither prompts for an image model nor reasoning. Its items therefore
teach to describe images. An item with a missing image is left out. A step is represented by its first image.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ...backend.core.answers.reading import write_plan
from ...backend.core.errors import AnswerError, PictureError, SettingsError
from ...backend.core.files.image_places import ImagePlaces
from ...backend.core.pictures import Picture
from ...backend.core.prompts.prompt_set import PromptSet
from ...backend.core.types import MAX_STEPS, Attempt, Plan, Request, Step, StepResult, StopReason, Trajectory
from ...backend.output.sft_rows import MARK, SftMessage, SftRow
from ...backend.story.agents.planner import planner_message
from ...training.rows.sft import write_rows
from ...training.rows.values import data_folder
from .accepted_runs import accepted_runs
from .data_files import TORCH_FILES, rows_of

SUFFIXES = (*TORCH_FILES, ".json", ".jsonl")
TEST_FILE = re.compile(r"(^|[^a-z])test([^a-z]|$)", re.IGNORECASE)
"""Names of the file that models are compared on, which must not be trained on."""
NOT_IN_PROMPTS = re.compile(r"\bstep\s*\d+\s*:|\(\s*\d+\s*\)|\bprevious (?:image|picture)\b", re.IGNORECASE)
"""References that an image model cannot understand: step numbers and other images."""
ASKED = (
    "Show step by step, with pictures and words: {title}",
    "{title}. Show every step in a picture, and tell what happens.",
    "Explain in pictures with a text each: {title}",
)
ASKED_STORY = (
    "Tell this story in pictures and words: {title}",
    "A picture story: {title}. Write what happens under every picture.",
)
NAMELESS = "a series of pictures that belong together"
Kind = Literal["text", "continuation", "description", "count"]
KINDS: tuple[Kind, ...] = ("text", "continuation", "description", "count")
FILES = ("planner_sft.json", "planner_sft_held_out.json")
GO_ON = (
    "So far there is this:\n{done}\nPlan the steps that follow.",
    "These steps are done:\n{done}\nWhat comes next? Plan the rest.",
    "I have got this far:\n{done}\nPlease go on from here to the end.",
    "Here is the beginning:\n{done}\nContinue it in the same manner.",
    "The first part is finished:\n{done}\nPlan what is still missing.",
)
GO_ON_EXACTLY = (
    "So far there is this:\n{done}\nPlan exactly {count} more.",
    "These steps are done:\n{done}\nFinish it in exactly {count}.",
    "Here is the beginning:\n{done}\nContinue with {count}, no more and no fewer.",
)
PUT_INTO_WORDS = (
    "Write what each of these pictures shows, one text a picture.",
    "Tell the story of these pictures in their order.",
    "Put each picture into words, in order.",
    "Explain these pictures one by one.",
)


class PlannerRowsData(BaseModel):
    """Settings of the rows that are created from trajectories."""

    model_config = ConfigDict(extra="forbid")

    kinds: str = Field(
        default=",".join(KINDS), description="Kinds of rows: text, continuation, description, count."
    )
    comm_limit: int | None = Field(
        default=None, ge=1, description="Maximum number of items of CoMM. Default: all."
    )

    def chosen(self) -> list[Kind]:
        """Return the kinds.

        Raises:
            SettingsError: A kind is unknown.
        """
        names = [name.strip() for name in self.kinds.split(",")]
        if unknown := set(names) - set(KINDS):
            raise SettingsError(f"kinds: unknown kind {min(unknown)!r}.", f"Use any of {', '.join(KINDS)}.")
        return [kind for kind in KINDS if kind in names]


class PlannerReport(BaseModel):
    """Content of report.json: rows by kind, left-out runs and items by reason."""

    rows: dict[str, int]
    held_out: int
    left_out: dict[str, int]


class PlannerQuestion(NamedTuple):
    """A row before it has files: its question with `<image>` marks, the images, and the answer."""

    kind: Kind
    text: str
    images: tuple[Picture, ...]
    answer: str


def questions_of(
    name: str, trajectory: Trajectory, kinds: Sequence[Kind], prompt_set: PromptSet
) -> Iterator[PlannerQuestion]:
    """Yield the questions of a trajectory in which every step was accepted, one of each suitable kind.

    Raises:
        AnswerError: A text is not allowed in an answer.
        SettingsError: A text is not allowed in a question.
    """
    results, plan = trajectory.results, trajectory.plan
    for kind in kinds:
        dice = Random(hashlib.blake2b(f"{name}/{kind}".encode(), digest_size=8).hexdigest())
        if kind == "text":
            yield _question(kind, trajectory.request, plan, prompt_set)
        elif kind == "description":
            shown = [(one.image, one.step.auxiliary_text) for one in results if one.image is not None]
            # Descriptions need stories in which every image has a text.
            if len(shown) > 1 and all(words for _, words in shown):
                steps = [
                    Step(number=n, name="words", auxiliary_text=text) for n, (_, text) in enumerate(shown, 1)
                ]
                text = f"{MARK}\n" * len(shown) + dice.choice(PUT_INTO_WORDS)
                request = Request(text=text, images=tuple(picture for picture, _ in shown))
                yield _question(kind, request, Plan(steps=tuple(steps)), prompt_set)
        elif len(results) > 1:
            done = dice.randint(1, len(results) - 1)
            wording = dice.choice(GO_ON if kind == "continuation" else GO_ON_EXACTLY)
            rest = plan.steps[done:]
            count = "1 step" if len(rest) == 1 else f"{len(rest)} steps"
            wording = wording.replace("{count}", count)
            wording = wording.replace("{done}", "\n".join(map(_shown, results[:done])))
            given = trajectory.request
            marked = given.text.count(MARK) == len(given.images)
            asked = given.text if marked else MARK * len(given.images) + _plain(given.text)
            images = [*given.images, *(result.image for result in results[:done] if result.image)]
            request = Request(text=f"{asked}\n\n{wording}", images=tuple(images))
            yield _question(kind, request, Plan(steps=rest), prompt_set)


def _question(kind: Kind, request: Request, plan: Plan, prompt_set: PromptSet) -> PlannerQuestion:
    message = planner_message(prompt_set, request)
    # If the template has placed the images already, marks in the request are plain text.
    text = "".join(MARK if isinstance(part, Picture) else _plain(part) for part in message.content)
    images = tuple(part for part in message.content if isinstance(part, Picture))
    # A row contains only the prompt of a step; settings, style and warnings belong to the run.
    steps = tuple(Step(**step.model_dump(exclude={"settings"})) for step in plan.drawn_steps)
    return PlannerQuestion(kind, text, images, write_plan(Plan(steps=steps, reasoning=plan.reasoning)))


def _shown(result: StepResult) -> str:
    """Return a finished step in the form in which a user would show it."""
    step = result.step
    words = _plain(step.auxiliary_text or "")
    if result.image is None:
        return f"{step.number}. {words}"
    title = _plain(step.instruction or step.name or step.prompt or "")
    return "\n".join(part for part in (f"{step.number}. {title}", MARK, words) if part)


def _plain(text: str) -> str:
    return text.replace(MARK, "image")


def unfit(trajectory: Trajectory) -> str:
    """Return why an accepted trajectory cannot be used for rows, or an empty text."""
    bad = any(NOT_IN_PROMPTS.search(step.prompt or "") for step in trajectory.plan.steps)
    return "a prompt refers to its step's number or to a previous image" if bad else ""


def make_planner_rows(
    runs: Sequence[Path],
    out: Path,
    prompt_set: PromptSet,
    settings: PlannerRowsData,
    comm: Path | None = None,
    log: Callable[[str], None] = print,
) -> PlannerReport:
    """Write a planner's rows to the folder `out`.

    Args:
        runs: Folders of runs.
        out: The folder.
        prompt_set: Prompt set of the planner to train.
        settings: The settings.
        comm: Folder of CoMM, whose items also become rows.
        log: Called with every line of progress.

    Raises:
        SettingsError: `out` contains other files, or no rows could be created. ChatError: The teacher is
            unavailable; its answers are cached next to `out`, and the same call resumes.
    """
    kinds, left_out, by_kind = settings.chosen(), Counter[str](), Counter[str]()
    rows: dict[bool, list[SftRow]] = {False: [], True: []}
    with data_folder(out, FILES) as folder:

        def add(name: str, trajectory: Trajectory, kinds: Sequence[Kind], held_out: bool = False) -> None:
            try:
                asked = list(questions_of(name, trajectory, kinds, prompt_set))
                made = [_row(one, [folder.keep(picture) for picture in one.images]) for one in asked]
            except PictureError:
                left_out["its folder cannot be read"] += 1
            except (AnswerError, SettingsError, ValidationError):
                left_out["its text is not allowed in a row"] += 1
            else:
                rows[held_out] += made
                by_kind.update(one.kind for one in asked)

        for run in accepted_runs(runs, unfit, left_out):
            add(run.id, run.trajectory, kinds, run.held_out)
        for name, trajectory in CommFolder(comm).stories(settings.comm_limit, left_out) if comm else ():
            # Items of CoMM have no reasoning for a plan and no prompts.
            add(name, trajectory, [kind for kind in kinds if kind == "description"])
        report = PlannerReport(
            rows=dict(sorted(by_kind.items())),
            held_out=len(rows[True]),
            left_out=dict(left_out.most_common()),
        )
        for kind, count in report.rows.items():
            log(f"{kind}: {count} rows")
        log(f"held out: {report.held_out} rows")
        for reason, count in report.left_out.items():
            log(f"left out {count}: {reason}")
        if not rows[False] and not rows[True]:
            raise SettingsError("No training rows could be created.", "The lines above give the reasons.")
        for name, of_file in zip(FILES, rows.values(), strict=True):
            if of_file or name == FILES[0]:
                write_rows(folder.path / name, of_file)
        folder.report(report)
    return report


def _row(question: PlannerQuestion, images: list[str]) -> SftRow:
    turns = [
        SftMessage(role="user", content=question.text),
        SftMessage(role="assistant", content=question.answer),
    ]
    return SftRow(messages=turns, images=images)


class CommPart(BaseModel):
    """A text or an image of a step."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["text", "image"]
    content: str | None = Field(default=None, max_length=20_000)
    image_path: str | None = Field(default=None, max_length=1000)


def _empty(value: Any) -> Any:
    return "" if value is None else str(value) if isinstance(value, int) else value


class CommItem(BaseModel):
    """An item of CoMM; other keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    data_id: Annotated[str, BeforeValidator(_empty), Field(min_length=1, max_length=200)]
    dataset_type: Annotated[str, BeforeValidator(_empty)] = ""
    title: Annotated[str, BeforeValidator(_empty), Field(max_length=2000)] = ""
    step_info: list[Annotated[list[CommPart], Field(max_length=100)]] = Field(
        min_length=1, max_length=MAX_STEPS
    )

    @property
    def request(self) -> str:
        """A request that the item answers."""
        wordings = ASKED_STORY if "story" in self.dataset_type.lower() else ASKED
        digest = hashlib.blake2b(self.data_id.encode("utf-8", "replace"), digest_size=4).digest()
        title = _clean(self.title).rstrip(".") or NAMELESS
        return wordings[digest[0] % len(wordings)].replace("{title}", title)


@dataclass(frozen=True)
class CommFolder:
    """The downloaded dataset: `train_data.pth` (or JSON of it) next to a folder of images.

    `place` is the folder or the file.
    """

    place: Path

    def file(self) -> Path:
        """Return the file of training items.

        Raises:
            SettingsError: There is none, or there are several.
        """
        if not self.place.is_dir():
            return self.place
        found = [one for one in sorted(self.place.iterdir()) if one.suffix.lower() in SUFFIXES]
        train = [one for one in found if "train" in one.stem.lower()]
        if len(train) != 1:
            names = ", ".join(one.name for one in train) or "none"
            reason = f"{str(self.place)!r} does not contain exactly one file of CoMM's training items"
            raise SettingsError(f"{reason} (found: {names}).", "Give train_data.pth next to its images.")
        return train[0]

    def stories(self, limit: int | None, left_out: Counter[str]) -> Iterator[tuple[str, Trajectory]]:
        """Yield (id, images with texts as a trajectory) of usable items; `left_out` counts the others.

        Raises:
            SettingsError: The file cannot be read, or is the dataset's test file.
        """
        file = self.file()
        if TEST_FILE.search(file.stem):
            hint = "Models are compared on it. Use CoMM's training file."
            raise SettingsError(f"{str(file)!r} has the name of CoMM's test file.", hint)
        places = ImagePlaces(file.parent, SettingsError, beside=("images", ""))
        for row in islice(rows_of(file, CommItem.model_fields), limit):
            try:
                item = CommItem.model_validate(row)
                steps = [step for one in item.step_info if any(step := _step(one, places))]
            except ValidationError:
                left_out["an item that is not in CoMM's format"] += 1
                continue
            except (PictureError, SettingsError):
                left_out["an item with an image that is missing or damaged"] += 1
                continue
            if all(picture is None for _, picture in steps):
                left_out["an item without images"] += 1
            elif len(shown := [(words, one) for words, one in steps if words and one is not None]) < 2:
                left_out["an item with fewer than two images that have texts"] += 1
            else:
                yield item.data_id, _described(item.request, shown)


def _described(request: str, shown: Sequence[tuple[str, Picture]]) -> Trajectory:
    results = []
    for number, (words, picture) in enumerate(shown, 1):
        step = Step(number=number, auxiliary_text=words)
        attempt = Attempt(prompt="", seed=0, image=picture)
        results.append(StepResult(step=step, attempts=(attempt,), chosen=0, stop_reason=StopReason.picked))
    plan = Plan(steps=tuple(result.step for result in results))
    return Trajectory(request=Request(text=request), plan=plan, results=tuple(results))


def _step(parts: Sequence[CommPart], places: ImagePlaces) -> tuple[str, Picture | None]:
    words = " ".join(one.content for one in parts if one.type == "text" and one.content)
    named = [one.image_path for one in parts if one.type == "image" and one.image_path]
    if not named:
        return _clean(words), None
    file = places.find(f"images/{named[0]}") or places.find(named[0])
    if file is None:
        raise PictureError(f"The image {named[0]!r} does not exist.")
    return _clean(words), Picture.open(file)


def _clean(text: str) -> str:
    # Replace lone surrogates, which are not valid text.
    plain = text.encode("utf-8", "replace").decode()
    return " ".join(plain.replace(MARK, "image").split())
