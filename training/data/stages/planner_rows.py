"""A planner's fine-tuning rows from trajectories: complete plans, continuations, counts and descriptions.

Only trajectories in which every step was accepted are used, since a plan whose images could not be generated
is not a good plan. Every question uses the prompt template of the planner to train, like a user's request,
so that training matches use. The step at which a continuation begins, and its phrasing, are derived from the
prompt's id: the same trajectories give the same rows.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ....backend.agents.planner_question import planner_message
from ....backend.answers.reading import write_plan
from ....backend.chat.protocol import ChatModel
from ....backend.errors import AnswerError, PictureError, SettingsError
from ....backend.feedback.sft_row import MARK, SftMessage, SftRow
from ....backend.pictures import Picture
from ....backend.prompts import PromptSet
from ....backend.types import Plan, Request, Step, StepResult, Trajectory
from ..decontamination.guard import Screened, open_guard
from ..rows.data_folder import data_folder
from ..rows.sft import write_rows
from .accepted_runs import accepted_runs
from .comm import NOT_IN_PROMPTS, CommFolder, comm_stories
from .teacher import Teacher

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
        default=",".join(KINDS),
        description="Kinds of rows, separated by commas: text, continuation, description, count.",
    )
    comm_limit: int | None = Field(
        default=None, ge=1, description="Maximum number of items of CoMM. Default: all."
    )
    parallel: int = Field(default=8, ge=1, le=256, description="Questions to the teacher at the same time.")

    def chosen(self) -> list[Kind]:
        """Return the kinds.

        Raises:
            SettingsError: A kind is unknown.
        """
        names = [name.strip() for name in self.kinds.split(",")]
        if unknown := set(names) - set(KINDS):
            raise SettingsError(f"--kinds: unknown kind {min(unknown)!r}.", f"Use any of {', '.join(KINDS)}.")
        return [kind for kind in KINDS if kind in names]


class PlannerReport(BaseModel):
    """Content of report.json: rows by kind, left-out runs and items by reason, what the guard left out."""

    rows: dict[str, int]
    held_out: int
    left_out: dict[str, int]
    guard: Screened | None


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
    guard: Path | None = None,
    comm: Path | None = None,
    chat: ChatModel | None = None,
    log: Callable[[str], None] = print,
) -> PlannerReport:
    """Write a planner's rows to the folder `out`.

    Args:
        runs: Folders of runs.
        out: The folder.
        prompt_set: Prompt set of the planner to train.
        settings: The settings.
        guard: Index of benchmarks, whose content is left out.
        comm: Folder of CoMM.
        chat: Teacher that writes prompts for CoMM's images. Without it they only give descriptions.
        log: Called with every line of progress.

    Raises:
        SettingsError: `out` contains other files, or no rows could be created. ChatError: The teacher is
            unavailable; its answers are cached next to `out`, and the same call resumes.
    """
    kinds, left_out, by_kind = settings.chosen(), Counter[str](), Counter[str]()
    rows: dict[bool, list[SftRow]] = {False: [], True: []}
    with open_guard(guard) as opened, data_folder(out, FILES) as folder:

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

        for run in accepted_runs(runs, unfit, opened, left_out):
            add(run.id, run.trajectory, kinds, run.held_out)
        teacher = Teacher(chat, out) if chat else None
        with closing(teacher) if teacher else nullcontext():
            for name, trajectory in (
                comm_stories(
                    CommFolder(comm), settings.comm_limit, opened, teacher, settings.parallel, left_out
                )
                if comm
                else ()
            ):
                # Items of CoMM have no reasoning for a whole plan, and prompts only from a teacher.
                taught = ("continuation", "description", "count") if teacher else ("description",)
                add(name, trajectory, [kind for kind in kinds if kind in taught])
        report = PlannerReport(
            rows=dict(sorted(by_kind.items())),
            held_out=len(rows[True]),
            left_out=dict(left_out.most_common()),
            guard=opened.screened(),
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
