"""Measures how reliably a critic answers the items of checklists, by kind of question.

An accuracy over all items hides that a critic may see colors and cannot count. So each kind has its own
balanced accuracy, which is 0.5 for guessing and for a critic that always gives the same answer. The result is
stored in the agent card, and a kind whose interval reaches 0.5 never rejects an image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

from pydantic import BaseModel, ConfigDict, FailFast, Field, TypeAdapter, ValidationError

from ...backend.agents.critic import EVEN
from ...backend.errors import SettingsError
from ...backend.files.bounded_reader import read_json
from ...backend.files.image_places import ImagePlaces
from ...backend.journal.run_files import first_fault
from ...backend.pictures import Picture
from ...backend.prompts.agent_card import KindReliability
from ...backend.prompts.trained_with import critic_card
from ...backend.types import CheckedItem, ChecklistItem
from ..data.from_runs.run_folders import annotated_runs
from ..statistics.intervals import share
from ..trainer.report.model_card import reliability_table
from ..trainer.report.progress_line import TimeLeft

MAX_LABELED = 20_000
FEW = 20
"""Items of a kind, true and false ones each, below which the interval says little."""
Log = Callable[[str], None]


class LabeledItem(BaseModel):
    """An item whose truth is known; images are file names relative to the file of the items.

    Attributes:
        before: Image before the step; `None` if there was none.
        after: The image.
        prompt: Prompt of the step.
        item: The item.
        truth: Whether it is true.
    """

    model_config = ConfigDict(extra="forbid")

    before: str | None = None
    after: str
    prompt: str
    item: ChecklistItem
    truth: bool


LABELED = TypeAdapter(Annotated[list[LabeledItem], FailFast(), Field(max_length=MAX_LABELED)])


@dataclass(frozen=True)
class AskedItem:
    """An item whose truth is known, with its loaded images."""

    before: Picture | None
    after: Picture
    prompt: str
    item: ChecklistItem
    truth: bool


class AnswersItems(Protocol):
    """The part of a critic that is measured."""

    def check(
        self, before: Picture | None, after: Picture, original_prompt: str, items: Sequence[ChecklistItem]
    ) -> tuple[CheckedItem, ...]:
        """Answer each item about an image."""
        ...


def read_labeled(path: Path) -> list[AskedItem]:
    """Return the items of a JSON file, a list of `LabeledItem`.

    An image is decoded again when it is needed, if the images do not fit into memory.

    Raises:
        SettingsError: The file is not such a list, or an image is not in its folder.
        PictureError: An image cannot be read.
    """
    try:
        rows = LABELED.validate_python(read_json(path, SettingsError, "The labeled items"))
    except ValidationError as error:
        raise SettingsError(
            f"The labeled items {str(path)!r}{first_fault(error)}", "Correct the file."
        ) from error
    places = ImagePlaces(path.parent, SettingsError)
    opened: dict[Path, Picture] = {}

    def image(name: str) -> Picture:
        file = places.find(name)
        if file is None:
            raise SettingsError(
                f"The image {name[:200]!r} of the labeled items {str(path)!r} is not in their folder.",
                "Copy it there, or correct its name.",
            )
        if file not in opened:
            opened[file] = Picture.open(file)
            opened[file].kept_by(lambda: Picture.open(file).image)
        return opened[file]

    return [
        AskedItem(
            None if row.before is None else image(row.before),
            image(row.after),
            row.prompt,
            row.item,
            row.truth,
        )
        for row in rows
    ]


def measure_reliability(
    critic: AnswersItems,
    asked: Sequence[AskedItem],
    recorded: Sequence[tuple[str, bool, bool]] = (),
    log: Log = print,
) -> dict[str, KindReliability]:
    """Ask a critic about items whose truth is known, and return its reliability by kind.

    The probability counts if there is one, also for kinds that the present card calls unreliable. An item
    without an answer counts as answered wrongly.

    Args:
        critic: The critic.
        asked: The items.
        recorded: Answers that were recorded before (`answered_items`).
        log: Receives progress lines.

    Raises:
        ChatError: The critic failed.
    """
    said: dict[str, list[tuple[bool, bool]]] = {}
    for kind, truth, hit in recorded:
        said.setdefault(kind, []).append((truth, hit))
    progress = TimeLeft("items", log)
    for number, one in enumerate(asked, 1):
        answer = critic.check(one.before, one.after, one.prompt, [one.item])[0]
        said.setdefault(one.item.kind, []).append((one.truth, answers(answer) == one.truth))
        progress(number, len(asked))
    return {kind: reliability_of(outcomes) for kind, outcomes in sorted(said.items())}


def answered_items(runs: Sequence[Path], critic: str, log: Log = print) -> list[tuple[str, bool, bool]]:
    """Return recorded answers to items that a person judged too: kind, truth, and whether they agree.

    Args:
        runs: Run folders, or folders of them.
        critic: Identity of the critic's model. Runs of other critics are left out.
        log: Receives a line about each of them.

    Raises:
        JournalError: A run is damaged.
        SettingsError: A folder does not contain a run.
    """
    found: dict[tuple[str, str], tuple[str, bool, bool]] = {}
    for run in annotated_runs(runs):
        judged = [one for one in run.images if one.feedback.items]
        if judged and run.critic_model != critic:
            log(f"{run.name} was judged by another critic and is left out")
            continue
        for one in judged:
            truths = {item.text: item.true for item in one.feedback.items or ()}
            for item in one.verdict.items:
                if item.text in truths:
                    truth = truths[item.text]
                    found[one.image, item.text] = (item.kind, truth, answers(item) == truth)
    return list(found.values())


def answers(item: CheckedItem) -> bool | None:
    """Return the critic's answer to an item, also one of a kind that its card calls unreliable."""
    return item.passed if item.probability is None else item.probability >= EVEN


def reliability_of(outcomes: Sequence[tuple[bool, bool]]) -> KindReliability:
    """Return the reliability of answers, given for each the truth and whether the answer was right.

    The interval of the balanced accuracy combines the Wilson intervals of both shares (R. G. Newcombe, 1998).
    """
    yes = share([hit for truth, hit in outcomes if truth])
    no = share([hit for truth, hit in outcomes if not truth])
    half = ((yes.rate - yes.low) ** 2 + (no.rate - no.low) ** 2) ** 0.5 / 2
    return KindReliability(
        items=len(outcomes),
        true=yes.n,
        yes_of_true=yes.rate,
        no_of_false=no.rate,
        low=max(0.0, (yes.rate + no.rate) / 2 - half),
    )


def store_reliability(folder: Path, found: dict[str, KindReliability]) -> None:
    """Write the measured kinds into the agent card of a checkpoint; kinds that were not measured stay.

    Raises:
        SettingsError: The folder does not exist, is a planner's, or its card is damaged or cannot be written.
    """
    card = critic_card(folder)
    card.model_copy(update={"reliability": {**card.reliability, **found}}).save(folder)


def as_lines(found: dict[str, KindReliability]) -> list[str]:
    """Return the lines of a Markdown table, and a warning for kinds with few items."""
    lines = reliability_table(found)
    few = [kind for kind, one in found.items() if min(one.true, one.items - one.true) < FEW]
    if few:
        lines += ["", f"WARNING: fewer than {FEW} true or false items of {', '.join(few)}."]
    return lines
