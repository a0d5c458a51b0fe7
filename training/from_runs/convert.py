"""Converts run folders and their feedback to training data of a critic: rows, images and a report.

A row asks exactly what the running critic is asked, with the prompt set of the critic to train. Images are
copied, each once and named by its digest, so that the folder can be moved and the runs deleted. The report
lists every image with its outcome and the reason, because data can only be trusted if one can check why an
image is in it. Refined prompts for failed images are the most valuable part of a row, so they are counted by
source. docs/how-to/training/own-critic.md explains the columns and reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from ...backend.core.errors import AnswerError, SettingsError, first_fault
from ...backend.core.pictures import Picture
from ...backend.core.prompts.prompt_set import PromptSet
from ...backend.models.scorers import Scorer
from ...backend.output.sft_rows import CorrectionSource, SftRow, critic_row
from ..content_cache import ContentCache
from ..rows.rl import CriticRlRow, Evaluation, write_rl_rows
from ..rows.sft import RARE, write_rows
from ..rows.values import DataFolder, check_place, data_folder, image_name
from .attempts import JudgedImage, Log, Oracle, ReadCounts, RunReader, read_runs
from .filter import Fate, ImageDecision, choose_rows, counts_of, with_found_variance
from .scoring import CachedScores
from .settings import EXACT, RunsData

REPORT_TEXT = "report.md"
FEW_REASONS = 0.5
"""Share of rows without reasoning above which there is a warning."""
SFT_FILE, RL_FILE, HELD_OUT_FILE = "critic_sft.json", "critic_rl.jsonl", "critic_sft_held_out.json"
SCORES = "scores.sqlite"
OURS = {SFT_FILE, RL_FILE, HELD_OUT_FILE, REPORT_TEXT, "page.html"}
"""Files of a data folder, now and in earlier releases."""


class RowCounts(BaseModel):
    """Counts of a data file.

    Attributes:
        rows: Different rows.
        repeated: Further copies of rows.
        right: Rows with a right image.
        wrong: Rows with a wrong image.
        human: Rows whose verdict is from a person.
        scorer: Rows whose verdict is from a scorer.
        critic: Rows whose verdict is from the critic.
        overruled: Rows that contradict the critic.
        overruled_without_reasoning: Those of them without reasoning.
        without_reasoning: All rows without reasoning.
        rarer: Share of the rarer verdict, including copies.
        remedies: Rows by the source of their refined prompt.
    """

    rows: int
    repeated: int
    right: int
    wrong: int
    human: int
    scorer: int
    critic: int
    overruled: int
    overruled_without_reasoning: int
    without_reasoning: int
    rarer: float
    remedies: dict[CorrectionSource, int]

    @classmethod
    def of(cls, rows: Sequence[ImageDecision]) -> RowCounts:
        """Return the counts of these rows."""
        decided = list({id(one): one for one in rows}.values())
        images = [one.judged for one in decided]
        sources, remedies = [one.source for one in images], [one.remedy for one in images]
        silent = [one for one in images if one.answer is not None and not one.answer.reasoning]
        right = sum(one.verdict for one in decided)
        shown = sum(one.verdict for one in rows)
        return cls(
            rows=len(decided),
            repeated=len(rows) - len(decided),
            right=right,
            wrong=len(decided) - right,
            human=sources.count("human"),
            scorer=sources.count("scorer"),
            critic=sources.count("critic"),
            overruled=sum(one.overruled for one in images),
            overruled_without_reasoning=sum(one.overruled for one in silent),
            without_reasoning=len(silent),
            rarer=min(shown, len(rows) - shown) / max(1, len(rows)),
            remedies={source: remedies.count(source) for source in get_args(CorrectionSource)},
        )


class ReportImage(BaseModel):
    """An image of a run: its place and digest, its outcome and the reason."""

    run: str
    step: int
    attempt: int
    image: str
    fate: Fate
    reason: str
    verdict: bool | None
    source: str | None
    remedy: CorrectionSource | None
    overall: float | None
    copies: int

    @classmethod
    def of(cls, one: ImageDecision) -> ReportImage:
        """Return the outcome of an image."""
        judged = one.judged
        copied = {name: getattr(judged, name) for name in ("run", "step", "attempt", "source", "remedy")}
        verdict = judged.answer.success if judged.answer else None
        overall = judged.score.overall if judged.score else None
        outcome = {"fate": one.fate, "reason": one.reason, "copies": one.copies}
        return cls(image=judged.after, verdict=verdict, overall=overall, **copied, **outcome)


class RunsReport(BaseModel):
    """Content of report.json."""

    settings: RunsData
    prompt_set: str
    scorer: str | None
    runs: int
    damaged: list[str]
    images: int
    words: int
    words_gone: int
    undrawn: int
    unscored: int
    scored: int = 0
    other_wording: int
    files: dict[str, RowCounts]
    kept: dict[str, int]
    left_out: dict[str, int]
    warnings: list[str]
    details: list[ReportImage]


def make_report(
    decided: Sequence[ImageDecision],
    files: Mapping[str, Sequence[ImageDecision]],
    counts: ReadCounts,
    **about: Any,
) -> RunsReport:
    """Return the report; `files` contains the rows of each data file, `about` the other fields."""
    rows = {name: RowCounts.of(of_file) for name, of_file in files.items()}
    return RunsReport(
        **vars(counts),
        files=rows,
        kept=counts_of(one for one in decided if one.fate != "left out"),
        left_out=counts_of(one for one in decided if one.fate == "left out"),
        warnings=_warnings(rows, counts),
        details=[ReportImage.of(one) for one in decided],
        **about,
    )


def _warnings(files: Mapping[str, RowCounts], counts: ReadCounts) -> list[str]:
    warnings = []
    for name, rows in files.items():
        if "held_out" not in name and rows.rows and rows.rarer < RARE:
            more = "True" if rows.right > rows.wrong else "False"
            warnings.append(
                f"{name}: nearly all verdicts are {more}; a critic trained on them tends to always say "
                f"{more}."
            )
        if name.endswith(".json") and rows.without_reasoning > FEW_REASONS * max(1, rows.rows):
            warnings.append(
                f"{name}: {rows.without_reasoning} of {rows.rows} rows have no reasoning and teach to answer "
                "without it. Write notes when you reject, or leave such rows out with reasoning required."
            )
        silent = rows.overruled_without_reasoning
        if name == "critic_sft.json" and silent * 2 > rows.overruled:
            warnings.append(
                f"{name}: {silent} of the {rows.overruled} rows that overrule the critic have no reasoning, "
                "so little is learned from them. Write a note when you reject."
            )
    if counts.other_wording:
        warnings.append(
            f"{counts.other_wording} of {counts.runs} runs were judged with another prompt set than that of "
            "the rows. Name the critic to train with --init, so that its prompt set is used."
        )
    if counts.words_gone:
        warnings.append(f"{counts.words_gone} annotations belong to images that their runs no longer have.")
    return warnings


def as_lines(report: RunsReport) -> list[str]:
    """Return the report as Markdown tables, without the list of images."""
    lines = [
        f"{report.runs} runs, {report.images} images, {report.words} annotations"
        + (f"; {len(report.damaged)} damaged runs left out" if report.damaged else "")
    ]
    if report.settings.rl_share is not None:
        settings = report.settings
        lines.append(f"rl_share {settings.rl_share:g}: variance above {settings.rl_variance:.4g}")
    columns = (
        "rows",
        "right",
        "wrong",
        "human",
        "scorer",
        "critic",
        "overruled",
        "without_reasoning",
        "repeated",
    )
    titles = [name.replace("overruled", "critic overruled").replace("without_", "no ") for name in columns]
    lines += _table(
        ["file", *titles],
        [[name, *(getattr(rows, column) for column in columns)] for name, rows in report.files.items()],
    )
    # Rows of RL have no refined prompts.
    remedies = {name: rows.remedies for name, rows in report.files.items() if name.endswith(".json")}
    remedies = {name: found for name, found in remedies.items() if any(found.values())}
    if remedies:
        rows = [[name, *found.values()] for name, found in remedies.items()]
        lines += [
            *_table(["refined prompts by source", *get_args(CorrectionSource)], rows),
            "",
            "none: the refined prompt is not learned.",
        ]
    for title, counts in (("used because", report.kept), ("left out because", report.left_out)):
        lines += _table([title, "images"], list(counts.items())) if counts else []
    notes = [f"{report.undrawn} attempts have no image."] if report.undrawn else []
    notes += [f"{report.unscored} images could not be scored."] if report.unscored else []
    for line in [*notes, *(f"WARNING: {warning}" for warning in report.warnings), *report.damaged]:
        lines += ["", line]
    return lines


def _table(titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    head = ["", f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    return head + [f"| {' | '.join(map(str, cells))} |" for cells in rows]


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
        parallel: Number of runs that are read and scored at a time.
    """

    settings: RunsData
    prompt_set: PromptSet
    scorer: Scorer | None = None
    oracle: Oracle | None = None
    skip_bad: bool = False
    log: Log = print
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
            raise SettingsError(f"Reasoning {EXACT!r} needs an oracle.", "Set reasoning own or required.")
        check_place(out, OURS)
        cache = ContentCache(out.with_name(f"{out.name}.{SCORES}")) if self.scorer else None
        with closing(cache) if cache else nullcontext():
            scores = CachedScores(self.scorer, cache, "from runs") if self.scorer else None
            oracle = self.oracle if exact else None
            digest = self.prompt_set.digest
            reader = RunReader(digest, scores, self.settings.success_at, oracle)
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
        )
        lines = as_lines(report)
        for line in lines:
            self.log(line)
        if not any(files.values()):
            hint = "The table above gives the reasons; see docs/how-to/training/own-critic.md."
            raise SettingsError("No training rows could be created from these runs.", hint)
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
    asked, learned = (one.original, one.used), one.remedy != "none"
    try:
        return critic_row(prompt_set, asked, one.answer, image_names(one), learned)
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
