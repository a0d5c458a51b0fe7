"""Implements `score --official`: runs an official evaluator against the judge bridge and reads its figures.

Its output is in `OUT/official`, which every call recreates. The valuable part of an earlier call, the judge's
answers, is in a separate file, so an interrupted call continues at no cost. The commit of the checkout is
stored next to the commit that this package was written for.
"""

from __future__ import annotations

import secrets
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from ...backend.errors import SettingsError
from ...backend.files.lock import SystemLock
from ..benchmarks import BY_RESULTS
from ..benchmarks.base.benchmark import Benchmark, BenchmarkData, BenchmarkItem
from ..benchmarks.base.evaluator import Evaluator, EvaluatorPaths, Row
from ..benchmarks.base.processes import EvaluatorError, EvaluatorProcesses
from ..benchmarks.base.rows import data_path, read_rows
from ..checkout import commit
from ..judges import BenchmarkJudge
from ..judges.bridge import JudgeBridge
from .judge_info import JudgeInfo
from .scores import BenchmarkScores, score
from .settings import open_folder
from .submission import SUBMISSION, read_collected

FOLDER = "official"
ANSWERS = "answers.sqlite"
LOCK = ".official.lock"
MARGIN_SECONDS = 60.0
MAX_ATTEMPTS = 2


@dataclass(frozen=True)
class RowSource:
    """Layout of a benchmark's rows.

    Attributes:
        name: Field with the id.
        inner: Places of the rows within a data folder.
        fields: Required fields.
        more: Other fields that the evaluator reads.
    """

    name: str
    inner: tuple[str, ...]
    fields: tuple[str, ...]
    more: tuple[str, ...] = ()


SOURCES = {
    "ueval": RowSource(
        "id", ("data",), ("id", "task", "prompt"), ("text_rubrics", "image_rubrics", "question_type")
    ),
    "wise": RowSource(
        "prompt_id",
        ("data_verified/merge.json", "merge.json"),
        ("Prompt", "Explanation", "Category", "Subcategory", "prompt_id"),
    ),
    "rise": RowSource(
        "index",
        (),
        ("index", "category", "instruction", "image"),
        (
            "reference",
            "reference_img",
            "reference_txt",
            "reasoning_img",
            "reasoning_wo_ins",
            "consistency_free",
            "subtask",
        ),
    ),
    "specv": RowSource("id", ("eval_data/interleave",), ("id", "dimension", "question"), ("question_img",)),
}
"""Sources of the evaluators' rows. CoMM's evaluator needs only the names."""
EVALUATORS = ("ueval", "comm", "wise", "rise", "specv")


@dataclass(frozen=True)
class OfficialScoring:
    """How to run an evaluator.

    Attributes:
        checkout: Its checkout.
        python: Python that has its requirements.
        parallel: Number of questions at the same time.
        silence: Seconds without a question after which it counts as hanging.
        deadline: Maximum time in seconds.
    """

    checkout: Path
    python: str = sys.executable
    parallel: int = 16
    silence: float = 900.0
    deadline: float = 86400.0


def score_officially(
    out: Path,
    official: OfficialScoring,
    judge: Callable[[], BenchmarkJudge],
    log: Callable[[str], None] = print,
) -> BenchmarkScores:
    """Run the benchmark's official evaluator on a collected folder and write its figures like `score`.

    Args:
        out: The folder.
        official: How to run the evaluator.
        judge: Opens the judge, after everything else has been checked.
        log: Receives progress lines.

    Raises:
        SettingsError: If the folder, checkout, data or Python cannot be used.
        EvaluatorError: If the evaluator fails.
        JudgeUnavailable: If the judge fails.
    """
    setting, benchmark, items = open_folder(out)
    evaluator = _evaluator(setting.benchmark, official.checkout, benchmark)
    read_collected(out)
    rows = _rows(setting.benchmark, setting.where(), benchmark)
    busy = SettingsError(f"Another process is scoring {str(out)!r}.", "Wait until it has finished.")
    with SystemLock(out / LOCK).held(busy):
        work = _empty(out / FOLDER)
        EvaluatorProcesses(work, official.python).require(evaluator.needs)
        opened = judge()
        try:
            judged, results = _run(
                out, work, official, opened, (benchmark, evaluator, items, rows, setting.where()), log
            )
        finally:
            opened.close()
        return score(out, results, judged)


Task = tuple[Benchmark, Evaluator, Sequence[BenchmarkItem], Mapping[str, Row], BenchmarkData]


def _run(
    out: Path,
    work: Path,
    official: OfficialScoring,
    judge: BenchmarkJudge,
    task: Task,
    log: Callable[[str], None],
) -> tuple[JudgeInfo, Path]:
    benchmark, evaluator, items, rows, data = task
    # Only letters and digits: an evaluator would parse a key that begins with "-" as an option.
    token = secrets.token_hex(24)
    bridge = JudgeBridge(judge, official.parallel, token)

    def check() -> None:
        if bridge.client.trouble is not None:
            raise bridge.client.trouble
        if bridge.client.idle_seconds > official.silence:
            raise EvaluatorError(
                f"The evaluator has not asked a question for {official.silence:g} s.",
                f"Read its output in {processes.log}.",
            )

    processes = EvaluatorProcesses(work, official.python, official.deadline, check)
    with bridge.serving() as address:
        place = EvaluatorPaths(
            data=data,
            checkout=official.checkout.resolve(),
            work=work.resolve(),
            submission=(out / SUBMISSION).resolve(),
            address=address,
            token=token,
            workers=official.parallel,
            seconds=MAX_ATTEMPTS * judge.deadline + MARGIN_SECONDS,
        )
        plan = evaluator.plan(place, items, rows)
        at = commit(official.checkout)
        log(f"evaluator: {benchmark.terms.evaluator}, checkout at {at[:12]}; judge: {judge.identity}")
        log(f"output of the evaluator: {processes.log}")
        try:
            for jobs in ([plan.parts] if plan.parts else []) + [[job] for job in plan.whole]:
                bridge.client.begin()
                processes.run(jobs)
        except KeyboardInterrupt:
            log("Stopped. Run the same command again to continue; answers of the judge are cached.")
            raise
        finally:
            log(f"{judge.asked} questions sent to the judge, {judge.remembered} answered from the cache")
    judged = JudgeInfo(
        how="official code",
        evaluator=benchmark.terms.evaluator,
        judge=judge.identity,
        checkout=at,
        official=dict(plan.figures()),
    )
    return judged, plan.results


def _evaluator(name: str, checkout: Path, benchmark: Benchmark) -> Evaluator:
    if name in BY_RESULTS:
        raise SettingsError(
            f"{benchmark.terms.title} is judged by detectors and encoders whose weights you must download.",
            "Run its bench_run.py as described in docs/how-to/training/benchmarks.md, then pass --results.",
        )
    if name not in EVALUATORS:
        raise SettingsError(f"{benchmark.terms.title} has no official evaluator.", "Omit --official.")
    evaluator: Evaluator = import_module(f"..benchmarks.{name}.official", __package__).EVALUATOR
    absent = [file for file in evaluator.files if not (checkout / file).is_file()]
    if absent:
        raise SettingsError(
            f"{str(checkout)!r} is not a checkout of {benchmark.terms.evaluator.partition(' @')[0]}: "
            f"{absent[0]} is missing.",
            f"Run: git clone https://github.com/{benchmark.terms.evaluator.partition(' @')[0]}",
        )
    return evaluator


def _rows(name: str, data: BenchmarkData, benchmark: Benchmark) -> dict[str, Row]:
    source = SOURCES.get(name)
    if source is None:
        return {}
    path = data_path(data, name, benchmark.terms, *source.inner)
    return {str(row[source.name]): row for row in read_rows(path, source.fields, source.more)}


def _empty(folder: Path) -> Path:
    """Return a folder of this module after emptying it."""
    try:
        if folder.is_symlink():
            raise SettingsError(f"The folder {str(folder)!r} is a link.", "Remove the link.")
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir()
    except OSError as error:
        raise SettingsError(
            f"Cannot recreate the folder {str(folder)!r}: {error.strerror or error}."
        ) from error
    return folder
