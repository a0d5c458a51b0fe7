"""`score --official`: an official evaluator, its judge behind the bridge, and figures from its results.

Decisions. What it leaves behind is in `OUT/official`, made anew by every call: what is worth keeping of an
earlier one are the judge's answers, and those are in a file of their own, so a call that was stopped is gone
on with at no cost. The commit of the checkout stands beside the one that this package was written for.
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
    """How a benchmark's rows are told apart: their field with the id, what of a data folder they are in, what
    they all have, and what else the evaluator reads of them."""

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
"""Of CoMM's rows its evaluator needs the names alone."""
EVALUATORS = ("ueval", "comm", "wise", "rise", "specv")


@dataclass(frozen=True)
class OfficialScoring:
    """How an evaluator is run: its checkout, the Python that has its requirements, questions at the same
    time, seconds without a question after which it counts as hanging, and seconds in all."""

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
    """Run the benchmark's own evaluator on a collected folder and write its figures as `score` does; `judge`
    opens the judge once all else is in order. Raises SettingsError, EvaluatorError, JudgeUnavailable."""
    setting, benchmark, items = open_folder(out)
    evaluator = _evaluator(setting.benchmark, official.checkout, benchmark)
    read_collected(out)
    rows = _rows(setting.benchmark, setting.where(), benchmark)
    busy = SettingsError(f"{str(out)!r} is being scored by another process.", "Wait for it to end.")
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
    # Digits and letters alone: an evaluator takes a key that begins with "-" for an option.
    token = secrets.token_hex(24)
    bridge = JudgeBridge(judge, official.parallel, token)

    def check() -> None:
        if bridge.client.trouble is not None:
            raise bridge.client.trouble
        if bridge.client.idle_seconds > official.silence:
            raise EvaluatorError(
                f"The evaluator has asked nothing for {official.silence:g} s.", f"See {processes.log}."
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
        log(f"{benchmark.terms.evaluator}, here at {at[:12]}; judge: {judge.identity}")
        log(f"its output: {processes.log}")
        try:
            for jobs in ([plan.parts] if plan.parts else []) + [[job] for job in plan.whole]:
                bridge.client.begin()
                processes.run(jobs)
        except KeyboardInterrupt:
            log("stopped; the same command goes on from the answers that are there")
            raise
        finally:
            log(f"{judge.asked} questions put to the judge, {judge.remembered} answers known before")
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
            f"{benchmark.terms.title} is judged by detectors and encoders whose weights you have to get.",
            "Run its bench_run.py as docs/how-to/training/benchmarks.md says, then give --results.",
        )
    if name not in EVALUATORS:
        raise SettingsError(f"{benchmark.terms.title} has no evaluator of its own.", "Leave out --official.")
    evaluator: Evaluator = import_module(f"..benchmarks.{name}.official", __package__).EVALUATOR
    absent = [file for file in evaluator.files if not (checkout / file).is_file()]
    if absent:
        raise SettingsError(
            f"{str(checkout)!r} is no checkout of {benchmark.terms.evaluator.partition(' @')[0]}: "
            f"it has no {absent[0]}.",
            f"git clone https://github.com/{benchmark.terms.evaluator.partition(' @')[0]}",
        )
    return evaluator


def _rows(name: str, data: BenchmarkData, benchmark: Benchmark) -> dict[str, Row]:
    source = SOURCES.get(name)
    if source is None:
        return {}
    path = data_path(data, name, benchmark.terms, *source.inner)
    return {str(row[source.name]): row for row in read_rows(path, source.fields, source.more)}


def _empty(folder: Path) -> Path:
    """A folder of this module, empty."""
    try:
        if folder.is_symlink():
            raise SettingsError(f"{str(folder)!r} is a link.", "Remove it.")
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir()
    except OSError as error:
        raise SettingsError(f"{str(folder)!r} cannot be made anew ({error.strerror or error}).") from error
    return folder
