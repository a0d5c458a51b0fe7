"""Regression gate: publishes a retrained critic only if it judges held-out rows as well as its predecessor.

Both critics answer the same rows greedily, as in use; gate_rows.py chooses them. Three measures must not have
dropped: accuracy and both recalls, each by the lower bound of the 95 % confidence interval of its paired
change. With few rows the intervals are wide, so the gate is harder to pass instead of easier. The critic must
also distinguish wrong from right images: it rejects wrong ones more often, and the interval of this
difference excludes 0. A critic that always gives the same verdict fails even if the previous one did the
same.

Whether the critic learned anything is measured separately, on annotated images of held-out runs, and only
reported: passing the gate shows that nothing got worse, not that anything got better. A critic that does not
pass stays in the training folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from ...backend.core.errors import SettingsError, TrainingError
from ...backend.core.files.atomic import write_text, writing_folder
from ...backend.core.files.bounded_reader import read_json
from ...backend.core.prompts.agent_card import KindReliability, MeasuredStrictness
from ...backend.core.prompts.trained_with import critic_card, trained_with
from ...backend.core.seams.chat_model import MAX_PIXELS
from ...backend.models.chat import open_chat
from ...backend.models.checkpoints.checkpoint import checkpoint_digest
from ...backend.models.vram.models import folder_shape
from ...backend.models.vram.placement import GB, judging_memory
from ...backend.story.agents.critic import Critic
from ..rows.sft import RowSet
from ..statistics import Difference, agresti_min_interval, newcombe_interval, sign_test
from ..trainer.model_card import read_facts, write_card
from ..trainer.model_loading import ModelTraining
from ..trainer.progress import TimeLeft
from ..trainer.resume import digest_of
from .gate_rows import GateSettings, chosen
from .measures import MEASURES, JudgedRows, Measured, answers_of, cell, example_lines
from .reliability import as_lines as as_table
from .reliability import made_items, measure_reliability


class Gate(BaseModel):
    """Comparison of two critics on the same rows.

    Attributes:
        key: Identifies the comparison.
        before: Measures of the old critic.
        after: Measures of the new critic.
        changes: Paired changes of accuracy and both recalls.
        fixed: Rows that only the new critic judges correctly.
        broken: Rows that only the old critic judges correctly.
        chance: p-value of the exact sign test of `fixed` against `broken`.
        faults: Reasons why the gate was not passed.
        reliability: The new critic's answers to items of checklists, by kind; empty if not measured.
        examples: Verdicts of the new critic, as lines of Markdown.
    """

    key: str
    before: Measured
    after: Measured
    changes: dict[str, Difference]
    fixed: int
    broken: int
    chance: float
    faults: list[str]
    reliability: dict[str, KindReliability] = {}
    examples: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the new critic may replace the old one."""
        return not self.faults


def compare(before: Measured, after: Measured, settings: GateSettings, key: str = "") -> Gate:
    """Compare two critics that were measured on the same rows."""
    pairs = list(zip(before.truths, before.hits, after.hits, strict=True))
    changes = {
        "accuracy": _change(pairs),
        "true_recall": _change([pair for pair in pairs if pair[0]]),
        "false_recall": _change([pair for pair in pairs if not pair[0]]),
    }
    limits = {"accuracy": settings.allowed_drop}
    faults = []
    for name, change in changes.items():
        limit = limits.get(name, settings.allowed_recall_drop)
        if change.low < -limit - 1e-9:
            old, new = getattr(before, name), getattr(after, name)
            faults.append(
                f"{MEASURES[name]}: {old.rate:.3f} before, {new.rate:.3f} after; the lower 95 % bound of the "
                f"change is {change.low:.3f} (limit {-limit:g})"
            )
    low, high = newcombe_interval(after.false_recall, after.right_refused)
    if low <= 0:
        faults.append(
            f"it does not distinguish wrong from right images: it rejects {after.false_recall.rate:.3f} of "
            f"the wrong and {after.right_refused.rate:.3f} of the right ones (95 % confidence interval of "
            f"the difference {low:+.3f} to {high:+.3f})"
        )
    flips = [(old, new) for _, old, new in pairs]
    fixed, broken = flips.count((False, True)), flips.count((True, False))
    return Gate(
        key=key,
        before=before,
        after=after,
        changes=changes,
        fixed=fixed,
        broken=broken,
        chance=sign_test(fixed, broken),
        faults=faults,
    )


def _change(pairs: Sequence[tuple[bool, bool, bool]]) -> Difference:
    return agresti_min_interval([new for _, _, new in pairs], [old for _, old, _ in pairs])


def as_lines(gate: Gate, what: str) -> list[str]:
    """Return the comparison as lines of a Markdown table."""
    lines = ["", f"| {cell(what)} | before | after | change |", "|---|---|---|---|"]
    for name, title in MEASURES.items():
        change = gate.changes.get(name)
        shown = "" if change is None else f"{change.difference:+.3f} [{change.low:+.3f}, {change.high:+.3f}]"
        lines.append(f"| {title} | {gate.before.shown(name)} | {gate.after.shown(name)} | {shown} |")
    lines.append("")
    lines.append(
        f"only the new critic is right on {gate.fixed} rows, only the old one on {gate.broken} (p = "
        f"{gate.chance:.3g})"
    )
    return lines


def learned_line(learned: Gate) -> str:
    """Return a one-line summary of a comparison on annotated images."""
    change = learned.changes["accuracy"]
    verdict = (
        "better" if change.low > 0 else "worse" if change.high < 0 else "not significantly better or worse"
    )
    return (
        f"learned: {verdict}; agrees with people on {sum(learned.after.hits)} of {change.n} held-out "
        f"annotations, before training on {sum(learned.before.hits)}: {change}"
    )


GATE_FILE, LEARNED_FILE = "gate.json", "learned.json"
HELD_OUT_ROWS, ANNOTATED_RUNS = "held-out rows", "annotated images of held-out runs"
FEW_ROWS = 100
Log = Callable[[str], None]


class GateRefused(TrainingError):
    """The retrained critic is worse on held-out rows than allowed and was not published."""


@dataclass(frozen=True)
class RegressionGate:
    """Compares a retrained critic with its predecessor on the same rows, under the conditions of use.

    Both answer on the device of the `training`, in 4 bits if it quantized the base. The predecessor has the
    adapter that the training continued, if there is one.
    """

    settings: GateSettings
    training: ModelTraining
    log: Log = print

    def estimate(self, before: Path) -> str:
        """Return a line about the memory of a critic in the gate, estimated as by `doctor --plan`."""
        batch, precision = self.settings.gate_batch, "4-bit" if self.training.load_in_4bit else "bf16"
        try:
            shape = folder_shape(before)
        except SettingsError as error:
            return f"memory of the gate: not estimated. {error}"
        # Each critic sees images of its own size.
        known = trained_with(self.training.adapter or before).image_pixels or MAX_PIXELS
        pixels = max(known, self.training.image_pixels)
        whole = judging_memory(shape, pixels, self.settings.gate_tokens, precision, batch)
        return (
            f"estimated memory of the gate: {whole / GB:.1f} GB with {batch} rows in a batch (gate_batch); "
            "the batch is halved when memory runs out"
        )

    def check(self, before: Path, after: Path, asked: RowSet, out: Path) -> Gate:
        """Put the rows of an `examination` to both critics, log the comparison and write it to `out`.

        `after` may be a LoRA adapter of `before`. A comparison that was already made is not repeated.
        """
        gate = self._compared(before, after, asked, out / GATE_FILE, HELD_OUT_ROWS)
        self._show(gate, HELD_OUT_ROWS)
        counted = {one.items for one in gate.reliability.values()}
        if self.settings.gate_items and counted != {self.settings.gate_items}:
            gate = gate.model_copy(update={"reliability": self._reliability(before, after)})
            _store(out / GATE_FILE, gate)
        for line in as_table(gate.reliability) if gate.reliability else ():
            self.log(line)
        if len(asked.rows) < FEW_ROWS:
            self.log(
                f"WARNING: only {len(asked.rows)} rows; each of them is worth {1 / len(asked.rows):.1%}. "
                "Give more with --held-out."
            )
        return gate

    def measure_learned(self, before: Path, after: Path, annotated: RowSet, out: Path) -> Gate:
        """Put annotated images of held-out runs to both critics, log what was learned and write it to `out`.

        The result never blocks publishing.
        """
        asked = RowSet(
            chosen(annotated.rows, self.settings.gate_rows, self.settings.gate_seed), annotated.folder
        )
        learned = self._compared(before, after, asked, out / LEARNED_FILE, ANNOTATED_RUNS)
        self._show(learned, ANNOTATED_RUNS)
        self.log(learned_line(learned))
        return learned

    def _show(self, gate: Gate, what: str) -> None:
        for line in as_lines(gate, what):
            self.log(line)

    def _compared(self, before: Path, after: Path, asked: RowSet, path: Path, what: str) -> Gate:
        continued = self.training.adapter
        digests = [checkpoint_digest(Path(one)) for one in (before, after, continued) if one]
        # The items are not part of the comparison, so one from before them stays valid.
        settings = self.settings.model_dump_json(exclude={"gate_items"})
        how = [settings, "4bit"] if self.training.load_in_4bit else [settings]
        key = digest_of([*digests, *how, *(row.line() for row in asked.rows)])
        gate = _stored(path, key)
        if gate is not None:
            return gate
        self.log(f"running both critics on {len(asked.rows)} {what}")
        critics = ("old", (before, continued)), ("new", _base_and_adapter(before, after))
        old, new = (self._judged(one, asked, f"answers of the {which} critic") for which, one in critics)
        gate = compare(old.measured, new.measured, self.settings, key)
        gate = gate.model_copy(update={"examples": tuple(example_lines(new))})
        _store(path, gate)
        return gate

    def _judged(self, checkpoint: tuple[Path, str | None], asked: RowSet, what: str) -> JudgedRows:
        critic, batch = self._critic(*checkpoint), self.settings.gate_batch
        return JudgedRows(what, asked, answers_of(critic, asked, batch, TimeLeft(what, self.log), self.log))

    def _critic(self, base: Path, adapter: str | None) -> Critic:
        """Open a critic as in use, with the gate's token limit."""
        device = None if self.training.device == "auto" else self.training.device
        bits = "4bit" if self.training.load_in_4bit else None
        chat = open_chat(
            f"transformers:{base}", adapter=adapter, device=device, quantization=bits, share=False
        )
        settings = Critic.defaults.model_copy(update={"max_tokens": self.settings.gate_tokens})
        return Critic(chat, settings=settings)

    def _reliability(self, before: Path, after: Path) -> dict[str, KindReliability]:
        """Ask the new critic about made items of checklists."""
        count = self.settings.gate_items
        self.log(f"asking the new critic about {count} made items of each kind")
        asked = made_items(count, self.settings.gate_seed)
        check = self._critic(*_base_and_adapter(before, after)).check
        return measure_reliability(check, asked, log=self.log)


def enforce(gate: Gate, trained: Path, force: bool, log: Log = print) -> None:
    """Check the result of the gate.

    Raises:
        GateRefused: The gate was not passed, and `force` is false.
    """
    if gate.passed:
        log("gate passed")
        return
    reason = "; ".join(gate.faults)
    if not force:
        raise GateRefused(
            f"The retrained critic is worse than the previous one: {reason}.",
            f"It was not published; it is in {str(trained)!r}. Mix in more old rows, lower the learning "
            "rate, or publish it anyway with --force.",
        )
    log(f"WARNING: published because of --force, although {reason}")


def publish(trained: Path, final: Path, gate: Gate | None = None, learned: Gate | None = None) -> Path:
    """Make `final` a copy of a finished checkpoint, with the gate's measurement in both of its cards.

    The cards are the agent card and the model card. Files are hard-linked where the file system allows it,
    and the folder appears only when it is complete.

    Raises:
        SettingsError: The agent card is damaged or cannot be written.
        TrainingError: The folder cannot be written.
    """
    with writing_folder(final, TrainingError, "The checkpoint") as temporary:
        shutil.copytree(trained, temporary, copy_function=_link, dirs_exist_ok=True)
        if gate is not None:
            card = critic_card(temporary)
            known = {"gate": strictness_of(gate), "reliability": {**card.reliability, **gate.reliability}}
            card.model_copy(update=known).save(temporary)
            facts = read_facts(temporary)
            if facts is not None:
                tables = {"gate": tuple(as_lines(gate, HELD_OUT_ROWS)), "verdicts": gate.examples}
                if learned is not None:
                    tables["learned"] = (*as_lines(learned, ANNOTATED_RUNS), learned_line(learned))
                write_card(temporary, facts.model_copy(update=tables))
    return final


def strictness_of(gate: Gate) -> MeasuredStrictness:
    """Return what the gate measured of the new critic."""
    after = gate.after
    return MeasuredStrictness(
        rows=len(after.truths),
        accuracy=after.accuracy.rate,
        accepts_right=after.true_recall.rate,
        rejects_wrong=after.false_recall.rate,
        passed=gate.passed,
    )


def _base_and_adapter(before: Path, after: Path) -> tuple[Path, str | None]:
    """Return the base model of a retrained critic, and its adapter if it is one of `before`."""
    return (before, str(after)) if (after / "adapter_config.json").is_file() else (after, None)


def _store(path: Path, gate: Gate) -> None:
    write_text(path, gate.model_dump_json(indent=1) + "\n", TrainingError, "The gate's comparison")


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def _stored(path: Path, key: str) -> Gate | None:
    """Return the comparison with this key if it was made before, else None."""
    try:
        gate = Gate.model_validate(read_json(path, TrainingError))
    except (TrainingError, ValidationError):
        return None
    return gate if gate.key == key else None
