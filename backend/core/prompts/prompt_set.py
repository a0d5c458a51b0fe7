"""Prompt sets: the prompt templates that an agent's checkpoint was trained with, as data.

A prompt set belongs to a checkpoint, not to the code. It is a folder with three text files. A checkpoint that
has its own one (sub-folder `prompt_set`) does not use the pack's. Two optional files are used to write a long
plan in parts; without them every plan is one reply, as a trained planner learned it. A third one is for
critics that were trained to judge clips. Slots are filled in one pass, so a user's text that happens to
contain `{rewritten_prompt}` stays text. The digest is stored in every trajectory.

The published prompt set, recognized by its digest, is used as in its own runners: images follow the text, and
a phrase of the requests is removed. The templates of the prompt enhancer belong to the image model and are
not part of a prompt set.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from pydantic import ConfigDict, Field, ValidationError, model_validator

from ..errors import SettingsError, first_fault
from ..files.atomic import remove, write_text
from ..files.bounded_reader import read_text
from ..types.values import ValidTexts

SLOTS = ("text_input", "original_instruction", "rewritten_prompt")
"""Slots of the three templates. The slots for long plans exist only in the two optional templates."""
FOLDER_NAME = "prompt_set"
STEPS = "steps"
STEP = re.compile(r"checkpoint-\d+")
"""Folder of a training run's checkpoints, and their names."""
MAX_TEMPLATE = 200_000
MAX_BYTES = 4
"""Maximum number of bytes of a character in UTF-8."""
NAMES = ("default", "verdict-first", "short")
"""Prompt sets that ship with the pack; the last two differ in the form of the critic's answer."""
TEMPLATES = Path(__file__).parent / "templates"
"""Folder of the prompt set `default`."""
FORM_BEGINS = "Answer in exactly this form"
"""Start of the answer format in a template."""
PARTS = ("planner_outline", "planner_part")
WORDINGS = frozenset({"ceec13c4d74bdbd4"})
"""Digests of the published prompt set as it is imported."""
ENDING = " both visually and textually"
"""Phrase that is removed from requests."""


class PromptSet(ValidTexts):
    """The prompt templates of an agent.

    Image marks are `<image>`. In a template without marks the images come first, except in the published
    planner's, where they come after the text. `planner_outline` and `planner_part` are both set or both
    `None`; for a long plan they replace the planner template from `FORM_BEGINS` on.

    Attributes:
        planner_text: Planner without images; slot `{text_input}`.
        planner_images: Planner with images; slot `{text_input}`.
        critic: Critic; slots `{original_instruction}`, `{rewritten_prompt}`.
        planner_outline: Outline of a long plan; slots `{text_input}`, `{how_many}`.
        planner_part: Part of a long plan; slots `{text_input}`, `{outline}`, `{always}`, `{so_far}`,
            `{count}`, `{first}`, `{last}`.
    """

    model_config = ConfigDict(frozen=True)

    planner_text: str = Field(max_length=MAX_TEMPLATE)
    planner_images: str = Field(max_length=MAX_TEMPLATE)
    critic: str = Field(max_length=MAX_TEMPLATE)
    planner_outline: str | None = Field(default=None, max_length=MAX_TEMPLATE)
    planner_part: str | None = Field(default=None, max_length=MAX_TEMPLATE)

    @model_validator(mode="after")
    def _parts_fit(self) -> PromptSet:
        given = [name for name in PARTS if getattr(self, name) is not None]
        if len(given) == 1:
            raise ValueError(f"{given[0]}.txt is there, but not both of {' and '.join(PARTS)}")
        if given and not all(FORM_BEGINS in one for one in (self.planner_text, self.planner_images)):
            raise ValueError(f"the planner templates need the words {FORM_BEGINS!r} for plans in parts")
        return self

    @property
    def digest(self) -> str:
        """16 hex digits over all templates."""
        parts = [self.planner_text, self.planner_images, self.critic]
        optional = (self.planner_outline, self.planner_part)
        parts += [one for one in optional if one is not None]
        return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()

    @property
    def is_published(self) -> bool:
        """Whether this is the published prompt set, imported from a checkout."""
        return self.digest in WORDINGS

    @property
    def has_parts(self) -> bool:
        """Whether a long plan is written in parts, starting with an outline."""
        return self.planner_outline is not None

    def in_one_reply(self) -> PromptSet:
        """Return the prompt set without the templates for long plans, for training on whole plans."""
        return self.model_copy(update=dict.fromkeys(PARTS))

    @property
    def verdict_first(self) -> bool:
        """Whether the critic's template asks for the answer before the reasoning."""
        answer, reasoning = self.critic.find("<answer>"), self.critic.find("<think>")
        return 0 <= answer < reasoning

    @classmethod
    def load(cls, folder: str | Path) -> PromptSet:
        """Read a prompt set from a folder.

        Raises:
            SettingsError: A file is missing or not valid.
        """
        texts: dict[str, str] = {}
        for name in cls.model_fields:
            path = Path(folder) / f"{name}.txt"
            if name not in PARTS or path.exists():
                texts[name] = _template(path)
        try:
            return cls(**texts)
        except ValidationError as error:
            fault = first_fault(error)
            file = f"{fault.place}.txt: " if fault.loc else ""
            raise SettingsError(
                f"Prompt set {str(folder)!r}: {file}{fault.reason}.", "Correct its files."
            ) from error

    def save(self, folder: str | Path) -> None:
        """Write the files into a folder, which is created, and remove the optional files that are not set.

        Raises:
            SettingsError: The folder is a link, or a file cannot be written.
        """
        if Path(folder).is_symlink():
            raise SettingsError(
                f"Cannot write the prompt set: {str(folder)!r} is a link.", "Remove the link."
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


def named_prompt_set(name: str) -> PromptSet:
    """Return one of the prompt sets in `NAMES`, for agents that are trained with it.

    It has no templates for long plans, since a planner that learns whole plans is not asked for parts.

    Raises:
        SettingsError: The name is unknown.
    """
    if name not in NAMES:
        raise SettingsError(f"Prompt set {name!r} is unknown.", f"Choose one of {', '.join(NAMES)}.")
    own = default_prompt_set().in_one_reply()
    if name == NAMES[0]:
        return own
    form = _template(TEMPLATES / NAMES[0] / f"critic_{name.replace('-', '_')}.txt")
    return own.model_copy(update={"critic": own.critic.partition(FORM_BEGINS)[0] + form})


def shown_prompt_sets(digests: str) -> str:
    """Return the prompt sets of a run: the pack's own by name, others by digest.

    Args:
        digests: `Identities.prompt_set`: one digest, or the planner's and the critic's with a plus between.
    """
    names = {named_prompt_set(name).digest: name for name in NAMES}
    names[default_prompt_set().digest] = NAMES[0]
    return ", ".join(names.get(one, one) for one in digests.split("+") if one)


def _template(path: Path) -> str:
    # Git and editors on Windows write CRLF, which would be a different prompt with a different digest.
    text = read_text(path, MAX_TEMPLATE * MAX_BYTES, SettingsError, "Prompt set's file")
    return text.replace("\r\n", "\n")


def prompt_set_of(checkpoint: str | Path) -> PromptSet | None:
    """Return the prompt set of a checkpoint folder, or of its training run; `None` if there is none.

    Raises:
        SettingsError: A file is not valid.
    """
    folder = recorded(checkpoint, FOLDER_NAME)
    return PromptSet.load(folder) if folder.is_dir() else None


def recorded(checkpoint: str | Path, name: str) -> Path:
    """Return the path of a checkpoint's record: in its folder, or for RUN/steps/checkpoint-N in RUN."""
    folder = Path(checkpoint)
    own = folder / name
    if not own.exists() and STEP.fullmatch(folder.name) and folder.parent.name == STEPS:
        return folder.parent.parent / name
    return own


def fill(template: str, **values: str) -> str:
    """Fill the slots with these names in one pass. Values are never searched for slots.

    Raises:
        KeyError: The template has one of `SLOTS` without a value.
    """
    names = "|".join((*SLOTS, *(name for name in values if name not in SLOTS)))
    return re.sub(rf"\{{({names})\}}", lambda slot: values[slot.group(1)], template)


SLOT = "{prompt}"
OWN = TEMPLATES / "enhancer"
"""Folder of the pack's own templates."""


class EnhancerPrompts(ValidTexts):
    """The two templates of an enhancer, for a step generated from text and for a step that edits an image.

    A template with the slot `{prompt}` is one message of the user. Another one is the system message, and the
    prompt follows as the user's message, which is how most makers publish theirs.
    """

    model_config = ConfigDict(frozen=True)

    text: str = Field(max_length=MAX_TEMPLATE)
    edit: str = Field(max_length=MAX_TEMPLATE)

    @property
    def digest(self) -> str:
        """16 hex digits over both templates."""
        return hashlib.blake2b(f"{self.text}\0{self.edit}".encode(), digest_size=8).hexdigest()


def enhancer_prompts(text: str = "", edit: str = "") -> EnhancerPrompts:
    """Return the templates with these texts. The pack's own replace an empty one.

    Raises:
        SettingsError: A text is too long.
    """
    for given in (text, edit):
        if len(given) > MAX_TEMPLATE:
            raise SettingsError(
                f"The enhancer's prompt has {len(given)} characters; the maximum is {MAX_TEMPLATE}.",
                "Shorten it.",
            )
    return EnhancerPrompts(
        text=text if text.strip() else read_template(OWN / "text.txt"),
        edit=edit if edit.strip() else read_template(OWN / "edit.txt"),
    )


def read_template(path: str | Path) -> str:
    """Read a template.

    Raises:
        SettingsError: The file is missing, too large or not text.
    """
    return read_text(Path(path), MAX_TEMPLATE * MAX_BYTES, SettingsError, "Enhancer's prompt")
