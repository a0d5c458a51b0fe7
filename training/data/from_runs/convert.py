"""Converts run folders and their feedback to training data of a critic: rows, images and a report.

A row asks exactly what the running critic is asked, with the prompt set of the critic to train. Images are
copied, each once and named by its digest, so that the folder can be moved and the runs deleted. The folder is
written next to its place and appears only when complete. It replaces an earlier folder of training data and
nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ValidationError

from ....backend.agents.critic import critic_message
from ....backend.answers.reading import write_verdict
from ....backend.errors import AnswerError, PictureError, SettingsError
from ....backend.feedback.corrected_prompts import refined_range
from ....backend.feedback.sft_row import MARK, SftMessage, SftRow
from ....backend.files.atomic import writing_folder
from ....backend.files.bounded_reader import read_bytes
from ....backend.journal.records.run_files import first_fault
from ....backend.pictures import MAX_BYTES, Picture
from ....backend.prompts import PromptSet
from ....backend.scorers import Scorer
from ...content_cache import ContentCache
from ..decontamination.screening import Screened, Screening
from ..executors import Executor
from ..executors.threads import ThreadExecutor
from ..rows.rl import CriticRlRow, Evaluation, write_rl_rows
from ..rows.sft import RowProblem, write_rows
from .attempts import JudgedImage, JudgedStep, Log, Oracle, ReadCounts, RunReader
from .filter import ImageDecision, choose_rows, with_found_variance
from .page import PAGE, write_page
from .report import REPORT_JSON, REPORT_TEXT, Conversion, RunsReport, as_lines, make_report, write_report
from .run_folders import read_runs, sound_runs
from .scoring import OpenScorer, RunScores
from .settings import EXACT, RunsData

SFT_FILE, RL_FILE, HELD_OUT_FILE = "critic_sft.json", "critic_rl.jsonl", "critic_sft_held_out.json"
IMAGES = "images"
SCORES = "scores.sqlite"
ONE_BY_ONE = ThreadExecutor(1)
OURS = {SFT_FILE, RL_FILE, HELD_OUT_FILE, IMAGES, REPORT_JSON, REPORT_TEXT, PAGE}
"""Files of a data folder."""
BY_THE_WAY = {".DS_Store", "Thumbs.db", "desktop.ini"}
"""Files that desktops create in folders."""


class MadeData(BaseModel):
    """Result of a conversion: the folder, the report, and the data files that have rows."""

    folder: Path
    report: RunsReport
    sft: Path | None
    rl: Path | None
    held_out: Path | None


@dataclass(frozen=True)
class RunConverter:
    """Converts runs to training data of a critic.

    `scorer` scores images without a score. `oracle` writes the answers if the settings ask for exact
    reasoning. Damaged runs raise an error, or are left out with `skip_bad`.
    """

    settings: RunsData
    prompt_set: PromptSet
    scorer: Scorer | None = None
    oracle: Oracle | None = None
    skip_bad: bool = False
    log: Log = print
    show: int = 0
    """Number of trajectories on the review page."""
    guard: Path | None = None
    """Index of benchmarks, whose content is left out."""
    executor: Executor = ONE_BY_ONE
    """How images are scored in parallel."""
    open_scorer: OpenScorer | None = None
    """Opens the scorer in another process; None if `executor` uses threads, which share it."""

    def convert(self, runs: Sequence[Path], out: Path) -> MadeData:
        """Write the data of `runs` (run folders, or folders of them) to `out`, and log the outcome of rows.

        Raises:
            SettingsError: `out` contains other files, the runs give no rows, or exact reasoning is set
                without an oracle.
            JournalError: A run is damaged, and `skip_bad` is false.
        """
        _check_place(out)
        steps, problems, counts, screened = self.read(runs, out)
        steps = _writable_only(steps, self.prompt_set)
        settings = with_found_variance(steps, self.settings)
        decided = choose_rows(steps, settings)
        files: dict[str, Sequence[ImageDecision]] = {
            SFT_FILE: [one for one in decided if "sft" in one.fate for _ in range(one.copies)],
            RL_FILE: [one for one in decided if one.fate.endswith("rl")],
            HELD_OUT_FILE: [one for one in decided if one.fate == "held out"],
        }
        damaged = [str(problem) for problem in problems]
        made = Conversion(
            settings, self.prompt_set.digest, self.scorer.identity if self.scorer else None, screened
        )
        report = make_report(decided, files, counts, damaged, made)
        for line in as_lines(report):
            self.log(line)
        if not any(files.values()):
            raise SettingsError(
                "No training rows could be created from these runs.",
                "The table above gives the reasons; see docs/how-to/training/own-critic.md.",
            )
        with writing_folder(out, SettingsError, "Data folder") as temporary:
            (temporary / IMAGES).mkdir()
            _write(temporary, files, self.prompt_set, made.scorer)
            write_report(temporary, report)
            if self.show:
                write_page(temporary / PAGE, steps, decided, self.show)
        paths = {name: out / name if of_file else None for name, of_file in files.items()}
        return MadeData(
            folder=out, report=report, sft=paths[SFT_FILE], rl=paths[RL_FILE], held_out=paths[HELD_OUT_FILE]
        )

    def read(
        self, runs: Sequence[Path], out: Path
    ) -> tuple[list[JudgedStep], list[RowProblem], ReadCounts, Screened | None]:
        """Read the judged steps of all runs. Scores are cached next to `out`.

        Returns:
            (steps, problems of left-out runs, counts, what the guard left out).

        Raises:
            SettingsError: As `convert`.
            JournalError: As `convert`.
        """
        exact = self.settings.reasoning == EXACT
        if exact and self.oracle is None:
            raise SettingsError(
                f"Reasoning {EXACT!r} needs an oracle that writes it, but none was given.",
                "Set --reasoning own or --reasoning required.",
            )
        with Screening.opened(self.guard) as screening:
            scorer, opened = self.scorer, None
            if scorer is not None:
                opened = RunScores(scorer.identity, ContentCache(out.with_name(f"{out.name}.{SCORES}")))
            reader = RunReader(
                self.prompt_set.digest,
                opened,
                self.settings.success_at,
                self.oracle if exact else None,
                screening,
            )
            try:
                if scorer is not None and opened is not None:
                    sound = sound_runs(runs, reader, self.skip_bad)
                    opened.ask(sound, self.open_scorer or (lambda: scorer), self.executor, self.log)
                steps, problems = read_runs(runs, reader, self.skip_bad, self.log)
                return steps, problems, reader.counts, screening.report()
            finally:
                if opened is not None:
                    opened.cache.close()


def _check_place(out: Path) -> None:
    """Raise SettingsError if `out` contains anything but training data of runs, or cannot be replaced."""
    if out.name in ("", "..") or out.is_symlink():
        raise SettingsError(
            f"{str(out)!r} cannot be replaced by a folder.",
            "Give a new folder as --out, with a name of its own.",
        )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        found = {entry.name for entry in out.iterdir()} - BY_THE_WAY if out.is_dir() else set()
    except OSError as error:
        raise SettingsError(
            f"{str(out)!r} cannot be used: {error.strerror or error}.", "Give another --out."
        ) from error
    # A report alone does not make it a data folder: other files in it would be deleted.
    if (out.exists() and not out.is_dir()) or found - OURS or (found and REPORT_JSON not in found):
        other = f" ({sorted(found - OURS)[0]!r})" if found - OURS else ""
        raise SettingsError(f"{str(out)!r} contains other files{other}.", "Give another --out.")


def _writable_only(steps: Sequence[JudgedStep], prompt_set: PromptSet) -> list[JudgedStep]:
    """Return the steps without answers whose text is not allowed in a row (marks or tags)."""
    return [replace(step, judged=tuple(_writable(one, prompt_set) for one in step.judged)) for step in steps]


def _writable(one: JudgedImage, prompt_set: PromptSet) -> JudgedImage:
    if one.answer is None:
        return one
    try:
        sft_row(one, prompt_set)
    except (AnswerError, SettingsError):
        return replace(one, answer=None, source=None, fault="its text is not allowed in a row")
    return one


def image_names(one: JudgedImage) -> tuple[str, str]:
    """Return the paths of a row's images, before and after, in the data folder.

    A missing source image is replaced by a white one.
    """
    before = one.before or Picture.white(one.size).digest
    return f"{IMAGES}/{before}.png", f"{IMAGES}/{one.after}.png"


def sft_row(one: JudgedImage, prompt_set: PromptSet) -> SftRow:
    """Return the row that teaches the right answer, without the refined prompt if it has no reliable source.

    Raises:
        AnswerError: The answer's text is not allowed in a row.
        SettingsError: The question's text is not allowed in a row.
    """
    assert one.answer is not None
    blank = Picture.white((1, 1))
    message = critic_message(prompt_set, (blank, blank), one.original, one.used)
    question = "".join(MARK if isinstance(part, Picture) else part for part in message.content)
    answer = write_verdict(one.answer, prompt_set.verdict_first)
    turns = [SftMessage(role="user", content=question), SftMessage(role="assistant", content=answer)]
    unknown = [refined_range(answer)] if one.remedy == "none" else []
    try:
        return SftRow(messages=turns, images=list(image_names(one)), not_learned=unknown)
    except ValidationError as error:
        raise _no_row(one, error) from error


def _no_row(one: JudgedImage, error: ValidationError) -> SettingsError:
    return SettingsError(f"{one.place} cannot be converted to a row{first_fault(error)}")


def rl_row(one: JudgedImage, judge: str | None) -> CriticRlRow:
    """Return the row for GRPO.

    Raises:
        SettingsError: The run's seed is not allowed in a row.
    """
    assert one.answer is not None and one.answer.success is not None and one.score is not None
    before, after = image_names(one)
    try:
        return CriticRlRow(
            origin_prompt=one.original,
            rewritten_prompt=one.used,
            origin_image_path=before if one.before else None,
            edited_image_path=after,
            evaluation=Evaluation(
                success=one.answer.success, semantics=one.score.semantics, quality=one.score.quality
            ),
            generator=one.generator or None,
            seed=one.seed,
            judge=judge,
            raw_scores=one.raw,
        )
    except ValidationError as error:
        raise _no_row(one, error) from error


def _write(
    folder: Path, files: dict[str, Sequence[ImageDecision]], prompt_set: PromptSet, judge: str | None
) -> None:
    for name in (SFT_FILE, HELD_OUT_FILE):
        if files[name]:
            write_rows(folder / name, [sft_row(one.judged, prompt_set) for one in files[name]])
    if files[RL_FILE]:
        write_rl_rows(folder / RL_FILE, [rl_row(one.judged, judge) for one in files[RL_FILE]])
    for name, of_file in files.items():
        for one in of_file:
            keep_images(folder, one.judged, white=name != RL_FILE)


def keep_images(folder: Path, one: JudgedImage, white: bool) -> None:
    """Copy the images of a row into a data folder; with `white` also the one for a missing image."""
    before, after = image_names(one)
    _copy(one.pictures / f"{one.after}.png", folder / after)
    if one.before is not None:
        _copy(one.pictures / f"{one.before}.png", folder / before)
    elif white and not (folder / before).exists():
        (folder / before).write_bytes(Picture.white(one.size).png())


def _copy(source: Path, target: Path) -> None:
    if target.exists():
        return
    target.write_bytes(read_bytes(source, MAX_BYTES, PictureError, "Image"))
