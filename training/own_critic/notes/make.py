"""Makes a critic's notes from a user's feedback: choose on one split, measure on the other, keep or refuse.

The gate is that of a retrained critic (gate/gate_rule.py): accuracy and both recalls may not have dropped. As
notes cost tokens at every verdict, the accuracy must also have risen: the lower 95 % bound of its change is
above 0. Notes that do not pass are not written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import BaseModel, Field

from ....backend.agents.critic import Critic
from ....backend.errors import SettingsError, TrainingError
from ....backend.files.atomic import remove, write_text
from ....backend.prompts.critic_notes import (
    NOTES,
    CriticNote,
    CriticNotes,
    MeasuredNotes,
    model_of,
)
from ...content_cache import ContentCache
from ...gate.gate_rows import GateSettings, needed
from ...gate.gate_rule import Gate, as_lines, compare, measured_verdicts
from .asking import NotedCritic
from .cases import Case, some_of, split_by_run
from .choice import MIN_GAIN, Choice, choose
from .settings import NotesSettings

REPORT = "report.json"
ANSWERS = "answers.sqlite"
Log = Callable[[str], None]


class NotesRefused(TrainingError):
    """The notes do not make the critic better, and were not written."""


class NotesReport(BaseModel):
    """Result of a choice.

    Attributes:
        critic: Identity of the critic without notes.
        settings: The settings.
        chosen_on: Number of images that the notes were chosen on.
        choice: The notes and all that were tried.
        gate: Comparison on the other images; `None` if no note was chosen.
        faults: Reasons why the notes are not kept; empty if they are.
        questions: Number of questions to the critic.
    """

    critic: str
    settings: NotesSettings
    chosen_on: int
    choice: Choice
    gate: Gate | None = None
    faults: list[str] = Field(default_factory=list)
    questions: int = 0


def make_notes(
    cases: Sequence[Case], critic: Critic, out: Path, settings: NotesSettings, log: Log = print
) -> NotesReport:
    """Choose notes from cases, measure them, and write them into `out` if the critic is better with them.

    Raises:
        ChatError: The critic failed. The same call continues.
        NotesRefused: The critic is not better with the notes.
        SettingsError: There are too few cases, or `out` cannot be written.
    """
    choosing, checking = splits_of(cases, settings)
    log(f"{len(choosing)} images to choose notes on, {len(checking)} to measure them on")
    cache = ContentCache(out / ANSWERS, "The file of the critic's answers")
    try:
        with NotedCritic(critic, settings.max_questions, settings.parallel, cache) as asked:
            report = chosen_and_measured(asked, choosing, checking, settings, log)
    finally:
        cache.close()
    return _written(report, model_of(critic.chat.identity), out, log)


def splits_of(cases: Sequence[Case], settings: NotesSettings) -> tuple[list[Case], list[Case]]:
    """Return the cases to choose on and the cases to measure on.

    Raises:
        SettingsError: There are too few of either verdict, or too few questions for them.
    """
    choosing, checking = split_by_run(some_of(cases, settings.images, settings.seed), settings.seed)
    least = needed(GateSettings())
    counts = [sum(case.success for case in checking), sum(not case.success for case in checking)]
    if min(counts) < least:
        raise SettingsError(
            f"The notes are measured on {len(checking)} images, of which you accepted {counts[0]} and "
            f"rejected {counts[1]}. At least {least} of each are needed.",
            f"Half of the runs are used for this: give about {10 * -(-4 * least // 10)} verdicts in all, "
            "half of them accepted. Also judge images about which the critic was right: they show whether "
            "notes harm.",
        )
    if not any(case.note for case in choosing):
        raise SettingsError(
            "None of your verdicts has a reason or a better prompt, so there is nothing to write into notes.",
            "Add reasons (--note of `data feedback`, or the text field of the live view).",
        )
    if settings.max_questions < len(choosing) + 3 * len(checking):
        raise SettingsError(
            f"{settings.max_questions} questions are too few for {len(choosing) + len(checking)} images.",
            f"Set --max-questions to {len(choosing) + 3 * len(checking)} or more, or --images to fewer.",
        )
    return choosing, checking


def chosen_and_measured(
    asked: NotedCritic,
    choosing: Sequence[Case],
    checking: Sequence[Case],
    settings: NotesSettings,
    log: Log = print,
) -> NotesReport:
    """Choose notes on some cases and measure them on others.

    Raises:
        ChatError: The critic failed.
    """
    plain = asked.with_notes(())
    report = NotesReport(critic=plain.identity, settings=settings, chosen_on=len(choosing), choice=Choice())
    before = asked.verdicts(plain, choosing)
    wrong = sum(said != case.success for said, case in zip(before, choosing, strict=True))
    log(f"without notes the critic is wrong on {wrong} of the {len(choosing)} images to choose on")
    report.choice = choose(asked, choosing, before, settings, 2 * len(checking), log)
    notes = report.choice.notes
    if notes:
        report.gate = gate_of(asked, notes, checking)
        report.faults = faults_of(report.gate)
    else:
        report.faults = [f"no correction as a note makes at least {MIN_GAIN} more verdicts right than wrong"]
    report.questions = asked.questions
    return report


def gate_of(asked: NotedCritic, notes: Sequence[CriticNote], cases: Sequence[Case]) -> Gate:
    """Compare the critic without and with notes.

    Raises:
        ChatError: The critic failed.
    """
    truths = [case.success for case in cases]
    without, with_them = (
        measured_verdicts(asked.verdicts(asked.with_notes(some), cases), truths) for some in ((), notes)
    )
    return compare(without, with_them, GateSettings())


def faults_of(gate: Gate) -> list[str]:
    """Return the reasons why notes with this comparison are not kept."""
    change = gate.changes["accuracy"]
    if change.low > 0:
        return gate.faults
    rise = (
        f"accuracy {gate.before.accuracy.rate:.3f} before and {gate.after.accuracy.rate:.3f} after is not a "
        f"significant rise (95 % confidence interval of the change {change.low:+.3f} to {change.high:+.3f})"
    )
    return [rise, *gate.faults]


def _written(report: NotesReport, critic: str, out: Path, log: Log) -> NotesReport:
    write_text(out / REPORT, report.model_dump_json(indent=1) + "\n", SettingsError, "The report")
    if report.gate is not None:
        for line in as_lines(report.gate, "images not chosen on"):
            log(line)
    log(f"{report.questions} questions to the critic")
    gate = report.gate
    if report.faults or gate is None:
        if (out / NOTES).exists():  # from other feedback
            remove(out / NOTES, SettingsError, "The critic's notes")
        raise NotesRefused(
            f"No notes were kept: {'; '.join(report.faults)}.",
            f"Give more verdicts with reasons. What was tried is in {str(out / REPORT)!r}.",
        )
    change = gate.changes["accuracy"]
    measured = MeasuredNotes(
        critic=critic,
        images=change.n,
        before=gate.before.accuracy.rate,
        after=gate.after.accuracy.rate,
        low=change.low,
        high=change.high,
    )
    path = CriticNotes(notes=tuple(report.choice.notes), measured=measured).save(out)
    log(f"notes: {path}")
    return report
