"""Prompt sets: the templates that an agent's checkpoint was trained with, as data.

Decision: a prompt set belongs to a checkpoint, not to the code. It is a folder of three text files; a
checkpoint that carries its own (sub-folder `prompt_set`) wins over the pack's. Two further files say how a
long plan is written in parts; a set without them has every plan in one reply, as a trained planner learned
it. Slots are filled in one pass, so a user's text that happens to hold `{rewritten_prompt}` stays text. The
digest goes into every trajectory.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from pathlib import Path

from pydantic import ConfigDict, Field, ValidationError, model_validator

from ..errors import SettingsError
from ..files.atomic import remove, write_text
from ..files.bounded_reader import read_text
from ..values import ValidTexts
from . import published

SLOTS = ("text_input", "original_instruction", "rewritten_prompt")
"""Slots of the three templates; those of the parts of a long plan are filled in their templates alone."""
FOLDER_NAME = "prompt_set"
STEPS = "steps"
STEP = re.compile(r"checkpoint-\d+")
"""Where a training keeps its checkpoints, and what each is called."""
MAX_TEMPLATE = 200_000
MAX_BYTES = 4
"""Of one character in UTF-8."""
NAMES = ("default", "verdict-first", "short")
"""Prompt sets that ship with the pack; the last two differ in the form of the critic's answer."""
TEMPLATES = Path(__file__).parent / "templates"
"""Folders of prompt sets: `default`, and earlier versions of it that runs may resume with."""
EARLIER = ("default_2",)
FORM_BEGINS = "Answer in exactly this form"
"""From here on a template says how to answer."""
OPTIONAL = ("planner_outline", "planner_part")


class PromptSet(ValidTexts):
    """Templates: planner from text, planner from text and images (slot `{text_input}`), critic (slots
    `{original_instruction}`, `{rewritten_prompt}`). Image marks are `<image>`; without any, images come
    first, but behind the text in the published planner's wording.

    `planner_outline` and `planner_part`, both or neither, stand in a planner's template from FORM_BEGINS on
    where a plan is written in parts: slots `{text_input}`, `{how_many}`, and `{text_input}`, `{outline}`,
    `{always}`, `{so_far}`, `{count}`, `{first}`, `{last}`.
    """

    model_config = ConfigDict(frozen=True)

    planner_text: str = Field(max_length=MAX_TEMPLATE)
    planner_images: str = Field(max_length=MAX_TEMPLATE)
    critic: str = Field(max_length=MAX_TEMPLATE)
    planner_outline: str | None = Field(default=None, max_length=MAX_TEMPLATE)
    planner_part: str | None = Field(default=None, max_length=MAX_TEMPLATE)

    @model_validator(mode="after")
    def _parts_fit(self) -> PromptSet:
        given = [name for name in OPTIONAL if getattr(self, name) is not None]
        if len(given) == 1:
            raise ValueError(f"{given[0]}.txt needs its counterpart ({' and '.join(OPTIONAL)} or neither)")
        if given and not all(FORM_BEGINS in one for one in (self.planner_text, self.planner_images)):
            raise ValueError(f"plans in parts need planner templates with the words {FORM_BEGINS!r}")
        return self

    @property
    def digest(self) -> str:
        """16 hex digits over all templates."""
        parts = [self.planner_text, self.planner_images, self.critic]
        parts += [one for one in (self.planner_outline, self.planner_part) if one is not None]
        return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()

    @property
    def is_published(self) -> bool:
        """Whether this is the published wording, imported from a checkout; see `published.py`."""
        return self.digest in published.WORDINGS

    @property
    def has_parts(self) -> bool:
        """Whether a long plan is written in parts, an outline first."""
        return self.planner_outline is not None

    def in_one_reply(self) -> PromptSet:
        """The same without the templates of parts, for a planner that learns to write whole plans."""
        return self.model_copy(update=dict.fromkeys(OPTIONAL))

    @property
    def verdict_first(self) -> bool:
        """Whether the critic is asked for its answer before its reasoning, as its template shows the form."""
        answer, reasoning = self.critic.find("<answer>"), self.critic.find("<think>")
        return 0 <= answer < reasoning

    @classmethod
    def load(cls, folder: str | Path) -> PromptSet:
        """Read a folder with planner_text.txt, planner_images.txt and critic.txt, and those of parts if they
        are there; raises SettingsError."""
        texts: dict[str, str] = {}
        for name in cls.model_fields:
            path = Path(folder) / f"{name}.txt"
            if name not in OPTIONAL or path.exists():
                texts[name] = _template(path)
        try:
            return cls(**texts)
        except ValidationError as error:
            fault = error.errors()[0]
            reason = (
                f"{fault['loc'][0]}.txt has more than {MAX_TEMPLATE} characters"
                if fault["loc"]
                else fault["msg"].removeprefix("Value error, ")
            )
            raise SettingsError(f"Prompt set {str(folder)!r}: {reason}.") from error

    def save(self, folder: str | Path) -> None:
        """Write the files into `folder`, making it, and remove those of parts that this set has not; raises
        SettingsError, also for a folder that is a link."""
        if Path(folder).is_symlink():
            raise SettingsError(
                f"{str(folder)!r} is a link, through which no prompt set is written.", "Remove it."
            )
        for name in type(self).model_fields:
            path, text = Path(folder) / f"{name}.txt", getattr(self, name)
            if text is not None:
                write_text(path, text, SettingsError, "Prompt set's file")
            elif path.exists():
                remove(path, SettingsError, "Prompt set's file")


def default_prompt_set() -> PromptSet:
    """The pack's own wording, for models that bring none."""
    return PromptSet.load(TEMPLATES / NAMES[0])


def earlier_prompt_set(digests: Collection[str]) -> PromptSet | None:
    """Return the earlier default prompt set that has one of these digests, None if there is none."""
    sets = (PromptSet.load(TEMPLATES / name) for name in EARLIER)
    return next((one for one in sets if one.digest in digests), None)


def named_prompt_set(name: str) -> PromptSet:
    """One of NAMES: the pack's own, or the same with a critic that is asked for fewer tokens. Raises
    SettingsError.

    For agents that are trained with it: one that was trained with another wording is not asked in this one,
    and a planner that learns whole plans is not asked for parts.
    """
    if name not in NAMES:
        raise SettingsError(f"There is no prompt set {name!r}.", f"Known: {', '.join(NAMES)}.")
    own = default_prompt_set().in_one_reply()
    if name == NAMES[0]:
        return own
    form = _template(TEMPLATES / NAMES[0] / f"critic_{name.replace('-', '_')}.txt")
    return own.model_copy(update={"critic": own.critic.partition(FORM_BEGINS)[0] + form})


def _template(path: Path) -> str:
    # Git and editors on Windows write CRLF, which would be another prompt with another digest.
    text = read_text(path, MAX_TEMPLATE * MAX_BYTES, SettingsError, "Prompt set's file")
    return text.replace("\r\n", "\n")


def prompt_set_of(checkpoint: str | Path) -> PromptSet | None:
    """The prompt set that a checkpoint folder carries, or for a step of a training the one of its run; None
    if there is none. Raises SettingsError if broken."""
    folder = recorded(checkpoint, FOLDER_NAME)
    return PromptSet.load(folder) if folder.is_dir() else None


def recorded(checkpoint: str | Path, name: str) -> Path:
    """Where a record of a checkpoint is: in its folder or, for RUN/steps/checkpoint-N, in RUN."""
    folder = Path(checkpoint)
    own = folder / name
    if not own.exists() and STEP.fullmatch(folder.name) and folder.parent.name == STEPS:
        return folder.parent.parent / name
    return own


def fill(template: str, **values: str) -> str:
    """Fill the slots of these names in one pass; values are never scanned for slots. Raises KeyError for one
    of SLOTS that the template has and that is missing."""
    names = "|".join((*SLOTS, *(name for name in values if name not in SLOTS)))
    return re.sub(rf"\{{({names})\}}", lambda slot: values[slot.group(1)], template)
