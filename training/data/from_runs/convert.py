"""Converts run folders and their feedback to training data of a critic: rows, images and a report.

A row asks exactly what the running critic is asked, with the prompt set of the critic to train. Images are
copied, each once and named by its digest, so that the folder can be moved and the runs deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ValidationError

from ....backend.agents.critic import critic_message
from ....backend.answers.reading import write_verdict
from ....backend.errors import AnswerError, SettingsError
from ....backend.feedback.corrected_prompts import refined_range
from ....backend.feedback.sft_row import MARK, SftMessage, SftRow
from ....backend.journal.records.run_files import first_fault
from ....backend.pictures import Picture
from ....backend.prompts import PromptSet
from ....backend.scorers import Scorer
from ...content_cache import ContentCache
from ..rows.data_folder import DataFolder, check_place, data_folder, image_name
from ..rows.rl import CriticRlRow, Evaluation, write_rl_rows
from ..rows.sft import write_rows
from .attempts import JudgedImage, LeaveOut, Log, Oracle, RunReader, read_runs
from .filter import ImageDecision, choose_rows, with_found_variance
from .report import REPORT_TEXT, RunsReport, as_lines, make_report
from .scoring import CachedScores
from .settings import EXACT, RunsData

SFT_FILE, RL_FILE, HELD_OUT_FILE = "critic_sft.json", "critic_rl.jsonl", "critic_sft_held_out.json"
SCORES = "scores.sqlite"
OURS = {SFT_FILE, RL_FILE, HELD_OUT_FILE, REPORT_TEXT, "page.html"}
"""Files of a data folder, now and in earlier releases."""


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

    Attributes:
        settings: The rules.
        prompt_set: Prompt set of the critic to train.
        scorer: Scores images without a score.
        oracle: Writes the answers if the settings ask for exact reasoning.
        skip_bad: Whether damaged runs are left out instead of raising an error.
        log: Called with every line of progress.
        leave_out: Returns why a run is left out, or an empty text; can be called from several threads.
        guard_report: Returns what `leave_out` left out, for the report.
        parallel: Number of runs that are read and scored at a time.
    """

    settings: RunsData
    prompt_set: PromptSet
    scorer: Scorer | None = None
    oracle: Oracle | None = None
    skip_bad: bool = False
    log: Log = print
    leave_out: LeaveOut | None = None
    guard_report: Callable[[], BaseModel | None] = lambda: None
    parallel: int = 1

    def convert(self, runs: Sequence[Path], out: Path) -> MadeData:
        """Write the data of `runs` (run folders, or folders of them) to `out`, and log the outcome of rows.

        Scores are cached next to `out`.

        Raises:
            SettingsError: `out` contains other files, the runs give no rows, or exact reasoning is set
                without an oracle.
            JournalError: A run is damaged, and `skip_bad` is false.
        """
        exact = self.settings.reasoning == EXACT
        if exact and self.oracle is None:
            raise SettingsError(
                f"Reasoning {EXACT!r} needs an oracle that writes it, but none was given.",
                "Set --reasoning own or --reasoning required.",
            )
        check_place(out, OURS)
        cache = ContentCache(out.with_name(f"{out.name}.{SCORES}")) if self.scorer else None
        with closing(cache) if cache else nullcontext():
            scores = CachedScores(self.scorer, cache, "from runs") if self.scorer else None
            oracle = self.oracle if exact else None
            digest = self.prompt_set.digest
            reader = RunReader(digest, scores, self.settings.success_at, oracle, self.leave_out)
            steps, problems, counts = read_runs(runs, reader, self.skip_bad, self.log, self.parallel)
        steps = [replace(step, judged=tuple(map(self._writable, step.judged))) for step in steps]
        settings = with_found_variance(steps, self.settings)
        decided = choose_rows(steps, settings)
        files: dict[str, Sequence[ImageDecision]] = {
            SFT_FILE: [one for one in decided if "sft" in one.fate for _ in range(one.copies)],
            RL_FILE: [one for one in decided if one.fate.endswith("rl")],
            HELD_OUT_FILE: [one for one in decided if one.fate == "held out"],
        }
        report = make_report(
            decided,
            files,
            counts,
            settings=settings,
            prompt_set=digest,
            scorer=self.scorer.identity if self.scorer else None,
            damaged=[str(problem) for problem in problems],
            guard=left_out.model_dump() if (left_out := self.guard_report()) else None,
        )
        lines = as_lines(report)
        for line in lines:
            self.log(line)
        if not any(files.values()):
            raise SettingsError(
                "No training rows could be created from these runs.",
                "The table above gives the reasons; see docs/how-to/training/own-critic.md.",
            )
        with data_folder(out, OURS) as folder:
            self._write(folder, files)
            folder.report(report)
            text = "\n".join(["# Training data from runs", "", *lines])
            (folder.path / REPORT_TEXT).write_text(text + "\n", encoding="utf-8")
        paths = {name: out / name if of_file else None for name, of_file in files.items()}
        return MadeData(
            folder=out, report=report, sft=paths[SFT_FILE], rl=paths[RL_FILE], held_out=paths[HELD_OUT_FILE]
        )

    def _writable(self, one: JudgedImage) -> JudgedImage:
        """Return the image without an answer if its text is not allowed in a row (marks or tags)."""
        if one.answer is None:
            return one
        try:
            sft_row(one, self.prompt_set)
        except (AnswerError, SettingsError):
            return replace(one, answer=None, source=None, fault="its text is not allowed in a row")
        return one

    def _write(self, folder: DataFolder, files: dict[str, Sequence[ImageDecision]]) -> None:
        for name in (SFT_FILE, HELD_OUT_FILE):
            if files[name]:
                write_rows(folder.path / name, [sft_row(one.judged, self.prompt_set) for one in files[name]])
        if files[RL_FILE]:
            judge = self.scorer.identity if self.scorer else None
            write_rl_rows(folder.path / RL_FILE, [rl_row(one.judged, judge) for one in files[RL_FILE]])
        for name, of_file in files.items():
            for one in of_file:
                keep_images(folder, one.judged, white=name != RL_FILE)


def image_names(one: JudgedImage) -> tuple[str, str]:
    """Return the paths of a row's images, before and after, in the data folder.

    A missing source image is replaced by a white one.
    """
    return image_name(one.before or Picture.white(one.size).digest), image_name(one.after)


def keep_images(folder: DataFolder, one: JudgedImage, white: bool) -> None:
    """Copy the images of a row into a data folder; with `white` also the one for a missing image."""
    for digest in filter(None, (one.before, one.after)):
        folder.copy(one.pictures / f"{digest}.png", digest)
    if one.before is None and white:
        folder.keep(Picture.white(one.size))


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
    said = {"success": one.answer.success, "semantics": one.score.semantics, "quality": one.score.quality}
    try:
        return CriticRlRow(
            origin_prompt=one.original,
            rewritten_prompt=one.used,
            origin_image_path=before if one.before else None,
            edited_image_path=after,
            evaluation=Evaluation.model_validate(said),
            generator=one.generator or None,
            seed=one.seed,
            judge=judge,
            raw_scores=one.raw,
        )
    except ValidationError as error:
        raise _no_row(one, error) from error
