"""Converts the user's feedback into training rows for a critic: `critic_sft.json` with its images next to it.

The user's verdict overrides the critic's. The row contains the critic's input and the answer that it should
have given. The critic's reasoning is kept if its verdict was already correct, and the corrected prompt comes
from `corrected_prompt_for`. A row is identified by its question, so later feedback on the same image replaces
the row, and withdrawn feedback removes it.

A critic learns only refined prompts that are confirmed. This is the user's corrected prompt; else the prompt
of a later attempt of the same step, from the same source image, that was accepted; else the critic's own
refined prompt, unless an image generated from it was rejected too. If there is none, the row still contains
the failed prompt, since an answer needs one, but it is excluded from the loss: otherwise the critic would
learn that repeating the same prompt helps.

A row is a conversation that ends with its answer (docs/reference/file-formats.md). Parts of the answer that
must not be learned are marked and not removed. So the answer stays valid, a tool that does not know the marks
can read the row, and rows without marks keep their old form. Fields that other tools add are either shown to
the agent or refused, never dropped silently.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    PrivateAttr,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from ..core.answers.reading import write_verdict
from ..core.errors import JournalError, SettingsError, first_fault
from ..core.files.bounded_reader import parse_json
from ..core.pictures import Picture
from ..core.prompts.prompt_set import PromptSet, default_prompt_set
from ..core.types import Attempt, Step, Trajectory, Value, Verdict
from ..core.types.checklist import named_failures
from ..story.agents.critic import critic_message
from ..story.journal.run_files import RunFiles
from .feedback_log import Feedback, one_writer

MARK = "<image>"
MAX_MESSAGES = 1_000
ROLES = {"human": "user", "gpt": "assistant", "user": "user", "assistant": "assistant", "system": "system"}
"""Roles of ShareGPT's turns (field `from`), mapped to the roles used here."""

ImagePath = Annotated[str, Field(max_length=4096)]


class SftMessage(BaseModel):
    """One turn of a training conversation; each `<image>` mark stands for one image of the row."""

    role: Literal["system", "user", "assistant"]
    content: str = Field(max_length=200_000)


def as_written_here(row: Any) -> Any:
    """Return a conversation row in the form that is used here.

    ShareGPT's `conversations` become `messages`, a single `image` becomes `images`, and a `system` text
    becomes the first turn.

    Raises:
        ValueError: The row has tools, an unsupported role, or two system texts.
    """
    if not isinstance(row, dict):
        return row
    row = {**row, "images": row.get("images") or []}
    if row.get("tools") not in (None, "", "[]", []):
        raise ValueError("'tools' are not supported: remove them, or describe them in a system turn")
    if "messages" not in row and isinstance(row.get("conversations"), list):
        row["messages"] = [_message(turn) for turn in row["conversations"]]
        if isinstance(row.get("image"), str) and not row["images"]:
            row["images"] = [row["image"]]
    system, messages = row.get("system"), row.get("messages")
    if system in (None, "") or not isinstance(messages, list):
        return row
    first = messages[0] if messages else None
    if isinstance(first, dict) and first.get("role") == "system":
        raise ValueError("it has 'system' and a system turn: keep one of them")
    return {**row, "messages": [{"role": "system", "content": system}, *messages]}


def _message(turn: Any) -> Any:
    """Convert a turn of ShareGPT into a message."""
    if not isinstance(turn, dict) or "from" not in turn:
        return turn
    role = ROLES.get(str(turn["from"]))
    if role is None:
        raise ValueError(f"the role {str(turn['from'])[:40]!r} is not supported: use human, gpt or system")
    return {"role": role, "content": turn.get("value")}


class SftRow(BaseModel):
    """A training conversation that ends with the target answer. It has one `<image>` mark per image.

    `not_learned` are character ranges [start, end) of the answer that are excluded from the loss; `kind` is
    the kind of edit, by which a critic is measured.
    """

    model_config = ConfigDict(extra="ignore")

    messages: Annotated[list[SftMessage], FailFast()] = Field(min_length=2, max_length=MAX_MESSAGES)
    images: Annotated[list[ImagePath], FailFast()] = Field(default_factory=list, max_length=64)
    not_learned: Annotated[list[tuple[int, int]], FailFast()] = Field(default_factory=list, max_length=64)
    kind: str = Field(default="", max_length=200)
    _place: str = PrivateAttr("")

    def __eq__(self, other: object) -> bool:
        """Compare the content; the place where a row was read does not count."""
        return isinstance(other, SftRow) and self.line() == other.line()

    def written(self) -> dict[str, Any]:
        """Return the row as it is written to a data file."""
        return self.model_dump(mode="json", exclude=self._unset)

    def line(self) -> str:
        """Return the row as one line of JSON, which identifies it."""
        return self.model_dump_json(exclude=self._unset)

    @property
    def _unset(self) -> set[str]:
        return {name for name in ("not_learned", "kind") if not getattr(self, name)}

    @property
    def place(self) -> str:
        """Place where the row was read, such as "row 3"; empty for a new row."""
        return self._place

    def at(self, place: str) -> SftRow:
        """Set the place where the row was read, and return the row.

        The place is copied with it and never written.
        """
        self._place = place
        return self

    @model_validator(mode="before")
    @classmethod
    def _as_written_here(cls, row: Any) -> Any:
        return as_written_here(row)

    @model_validator(mode="after")
    def _complete(self) -> SftRow:
        if self.messages[-1].role != "assistant":
            raise ValueError(
                f"the last message must have the role assistant, but has {self.messages[-1].role}"
            )
        marks = sum(message.content.count(MARK) for message in self.messages[:-1])
        if marks != len(self.images):
            raise ValueError(f"the row has {marks} {MARK} marks but {len(self.images)} images")
        length = len(self.messages[-1].content)
        for start, end in self.not_learned:
            if not 0 <= start < end <= length:
                raise ValueError(
                    f"not_learned has the range {start} to {end}, but the answer has {length} characters"
                )
        return self


CorrectionSource = Literal["person", "teacher", "later attempt", "critic", "none"]
"""Source of a refined prompt. A teacher is a program that knows the correct one."""

REFINED = re.compile(r'<answer>\{"previous_step_success": (?:true|false), "refine_prompt": "')
END = '"}</answer>'


class Label(NamedTuple):
    """Whether the image of an attempt is correct (`None`: unknown), and whether the user said so."""

    success: bool | None
    by_person: bool = False


class CorrectedPrompt(NamedTuple):
    """A prompt and its source. If the source is "none", it is the failed prompt."""

    prompt: str
    source: CorrectionSource


def corrected_prompt_for(
    attempts: Sequence[Attempt], labels: Sequence[Label], index: int, better: str | None = None
) -> CorrectedPrompt:
    """Return the corrected prompt for an attempt whose image is wrong.

    Args:
        attempts: All attempts of the step.
        labels: Label of each attempt.
        index: Index of the failed attempt.
        better: The user's corrected prompt, if there is one.
    """
    failed = attempts[index]
    if better and better.strip():
        return CorrectedPrompt(better.strip(), "person")
    redrawn = [
        (one.prompt, label)
        for one, label in list(zip(attempts, labels, strict=True))[index + 1 :]
        if one.image is not None and one.source == failed.source
    ]
    accepted = [one for one in redrawn if one[1].success and not _same(one[0], failed.prompt)]
    if accepted:
        # Attempts that the user accepted come before those that only a critic or a score accepted.
        return CorrectedPrompt(
            next((p for p, label in accepted if label.by_person), accepted[0][0]), "later attempt"
        )
    verdict = failed.verdict
    proposed = verdict.refined_prompt.strip() if verdict is not None and verdict.success is False else ""
    rejected = any(label.success is False and _same(prompt, proposed) for prompt, label in redrawn)
    if proposed and not _same(proposed, failed.prompt) and not rejected:
        return CorrectedPrompt(proposed, "critic")
    return CorrectedPrompt(failed.prompt, "none")


def refined_range(answer: str) -> tuple[int, int]:
    """Return the range [start, end) of the refined prompt in an answer of `write_verdict`.

    Raises:
        ValueError: The text is not such an answer.
    """
    found = list(REFINED.finditer(answer))
    end = answer.rfind(END)
    if len(found) != 1 or end < found[0].end():
        raise ValueError("The answer was not written by write_verdict.")
    return found[0].end(), end


def _same(one: str, other: str) -> bool:
    return " ".join(one.split()).casefold() == " ".join(other.split()).casefold()


DATA_FILE = "critic_sft.json"
IMAGES = "images"
MAX_ROWS = 20_000
ROWS = TypeAdapter(Annotated[list[SftRow], FailFast(), Field(max_length=MAX_ROWS)])


class FeedbackData(Value):
    """The data file after feedback was added.

    Attributes:
        path: The file.
        rows: Rows in it now.
        skipped: Entries about images that the trajectory does not have.
    """

    path: Path
    rows: int
    skipped: int = 0


def add_feedback_rows(
    folder: Path, trajectory: Trajectory, words: Sequence[Feedback], prompt_set: PromptSet | None = None
) -> FeedbackData:
    """Write a row for every entry into critic_sft.json, with its images; all of them or none.

    An entry about another image than the one of the trajectory's attempt is skipped. An entry without a
    verdict and without a corrected prompt removes its row. Feedback on later attempts of a step also provides
    corrected prompts for the earlier ones.

    Args:
        folder: Folder of the data file.
        trajectory: The run that the feedback is about.
        words: The feedback.
        prompt_set: Prompt set of the critic to train. Default: the pack's own.

    Raises:
        SettingsError: An attempt cannot be judged.
        AnswerError: A text cannot be part of an answer.
        JournalError: The file is damaged, too large, or cannot be written.
    """
    prompts = prompt_set or default_prompt_set()
    kept = [word for word in words if word.image in (None, _image_at(trajectory, word))]
    changes = [_change(trajectory, word, words, prompts) for word in kept]
    files = RunFiles(folder)
    with one_writer(files):
        rows = {_question(row): row for row in _read(files)}
        for row, pictures in changes:
            rows.pop(_question(row), None)
            for picture in pictures:
                rows[_question(row)] = row
                if not files.has(IMAGES, f"{picture.digest}.png"):
                    files.write(picture.png(), IMAGES, f"{picture.digest}.png")
        if len(rows) > MAX_ROWS:
            raise JournalError(
                f"{str(files.path(DATA_FILE))!r} would have more than {MAX_ROWS} rows.",
                "Move it and its images to another folder to start a new file.",
            )
        content = [row.written() for row in rows.values()]
        files.write(json.dumps(content, ensure_ascii=False, indent=1).encode() + b"\n", DATA_FILE)
    return FeedbackData(path=files.path(DATA_FILE), rows=len(rows), skipped=len(words) - len(kept))


def find_attempt(trajectory: Trajectory, word: Feedback) -> tuple[Step, Attempt, Picture]:
    """Return the step, the attempt and the image that an entry is about.

    Raises:
        SettingsError: The image does not exist.
    """
    results = {result.step.number: result for result in trajectory.results}
    result = results.get(word.step)
    if result is None:
        known = ", ".join(str(number) for number in results) or "none"
        raise SettingsError(
            f"The run does not have a step {word.step}.", f"Its steps are {known}. Choose one of them."
        )
    if word.attempt >= len(result.attempts):
        count = len(result.attempts)
        raise SettingsError(
            f"Step {word.step} does not have an attempt {word.attempt + 1}.",
            f"Choose one of its {count} attempts.",
        )
    attempt = result.attempts[word.attempt]
    if attempt.image is None or not result.step.prompt:
        lacking = "an image" if attempt.image is None else "a prompt to judge it against"
        raise SettingsError(
            f"Attempt {word.attempt + 1} of step {word.step} does not have {lacking}.",
            "Choose another attempt.",
        )
    return result.step, attempt, attempt.image


def _image_at(trajectory: Trajectory, word: Feedback) -> str | None:
    attempts = next((one.attempts for one in trajectory.results if one.step.number == word.step), ())
    image = attempts[word.attempt].image if word.attempt < len(attempts) else None
    return image.digest if image else None


def verdict_of_person(attempt: Attempt, word: Feedback) -> Verdict | None:
    """Return the verdict that the critic should have given; `None` if the feedback has no verdict.

    Its refined prompt is the prompt used, which is the correct answer for an accepted image. For a rejected
    image `corrected_prompt_for` finds a better one.
    """
    success = success_of(word)
    if success is None:
        return None
    said = attempt.verdict.reasoning if attempt.verdict and attempt.verdict.success == success else ""
    note = (word.note or "").strip()
    reasoning = note or named_failures(said, () if success else word.false_items)
    return Verdict(success=success, refined_prompt=attempt.prompt, reasoning=reasoning)


def verdict_of_critic(attempt: Attempt) -> Verdict | None:
    """Return the critic's verdict, as a critic learns it; `None` if there is none.

    Its reasoning names the items of the checklist that are not true.
    """
    said = attempt.verdict
    if said is None or said.success is None:
        return None
    failed = [item.text for item in said.items if item.passed is False]
    return said.model_copy(update={"reasoning": named_failures(said.reasoning, failed)})


def success_of(word: Feedback) -> bool | None:
    """Return the user's verdict. Without one, a corrected prompt or a false item rejects the image."""
    wrong = bool((word.better_prompt or "").strip()) or bool(word.false_items)
    return word.accepted if word.accepted is not None else (False if wrong else None)


def _change(
    trajectory: Trajectory, word: Feedback, words: Sequence[Feedback], prompts: PromptSet
) -> tuple[SftRow, tuple[Picture, ...]]:
    """Return the row of an entry and its images; without images if the entry removes the row."""
    step, attempt, image = find_attempt(trajectory, word)
    pictures = (attempt.source or Picture.white(image.size), image)
    verdict, source = verdict_of_person(attempt, word), None
    if verdict and not verdict.success:
        prompt, source = _corrected_prompt(trajectory, word, words)
        verdict = verdict.model_copy(update={"refined_prompt": prompt})
    images = [f"{IMAGES}/{picture.digest}.png" for picture in pictures]
    try:
        row = critic_row(prompts, (step.prompt or "", attempt.prompt), verdict, images, source != "none")
    except ValidationError as error:
        raise SettingsError(f"The attempt cannot be a training row{first_fault(error)}") from error
    return row, pictures if verdict else ()


def _corrected_prompt(trajectory: Trajectory, word: Feedback, words: Sequence[Feedback]) -> CorrectedPrompt:
    """Return the corrected prompt for a rejected attempt.

    It is found from all feedback on the step and from the critic's verdicts on the other attempts.
    """
    result = next(one for one in trajectory.results if one.step.number == word.step)
    said = [one for one in words if one.step == word.step and one.image in (None, _image_at(trajectory, one))]
    given = {one.attempt: success_of(one) for one in said}
    labels = [
        Label(own, True)
        if (own := given.get(number)) is not None
        else Label(attempt.verdict.success if attempt.verdict else None)
        for number, attempt in enumerate(trajectory.judged_as_step(result).attempts)
    ]
    return corrected_prompt_for(result.attempts, labels, word.attempt, word.better_prompt)


def critic_row(
    prompts: PromptSet,
    asked: tuple[str, str],
    verdict: Verdict | None,
    images: Sequence[str],
    learns_prompt: bool = True,
) -> SftRow:
    """Return the row that asks what the critic is asked, and teaches this verdict.

    Args:
        prompts: Prompt set of the critic to train.
        asked: Prompt of the step, and prompt of the attempt.
        verdict: The right answer.
        images: Paths of the images before and after the step.
        learns_prompt: Whether the refined prompt is learned.

    Raises:
        AnswerError: A text cannot be part of an answer.
        ValidationError: A text cannot be part of a row.
    """
    blank = Picture.white((1, 1))
    message = critic_message(prompts, (blank, blank), *asked)
    question = "".join(MARK if isinstance(part, Picture) else part for part in message.content)
    answer = write_verdict(verdict, prompts.verdict_first) if verdict else ""
    turns = [SftMessage(role="user", content=question), SftMessage(role="assistant", content=answer)]
    unknown = [] if learns_prompt else [refined_range(answer)]
    return SftRow(messages=turns, images=list(images), not_learned=unknown)


def _question(row: SftRow) -> tuple[str, ...]:
    return (*(message.content for message in row.messages[:-1]), *row.images)


def _read(files: RunFiles) -> list[SftRow]:
    data = files.read(DATA_FILE)
    if data is None:
        return []
    content = parse_json(data, JournalError, repr(str(files.path(DATA_FILE))))
    try:
        return ROWS.validate_python(content)
    except ValidationError as error:
        path = str(files.path(DATA_FILE))
        raise JournalError(f"{path!r}{first_fault(error)}", "Correct the file, or move it.") from error
