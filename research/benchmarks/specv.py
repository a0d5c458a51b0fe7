"""SpecV, interleaved track: stories of text and images, judged by yes-or-no questions.

The official evaluator leaves missing or empty answers out of the average, so failing on hard tasks would
score better than answering them badly. Here a missing answer is a gap and counts zero.

Its `run_eval.py` and `score_and_rank.py` read and write next to their own file. They are therefore copied
into a folder of the run, together with the data, checklists and submission, and the checkout stays unchanged.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...backend.core.errors import SettingsError
from .benchmark import (
    BenchmarkData,
    BenchmarkItem,
    BenchmarkTerms,
    EvaluatorJob,
    EvaluatorPaths,
    EvaluatorPlan,
    Values,
)
from .benchmark_files import (
    ContentBenchmark,
    ImageFinder,
    checked,
    data_path,
    given,
    id_in,
    link,
    numbers_in,
    read_rows,
    results_json,
    results_object,
    text_in,
    write_lines,
)

PLACEHOLDER = re.compile(r"\[IMAGE(\d{1,3})\]")
DATA = "eval_data/interleave"
INNER = "eval/interleave"
RUN, RANK, PROMPT = "run_eval.py", "score_and_rank.py", "eval_prompt.txt"
CHECKLISTS = "eval_checklist/interleave"
MODEL = "answers"


class SpecV(ContentBenchmark):
    """SpecV: 200 tasks in four dimensions."""

    metrics = ("as expected",)
    terms = BenchmarkTerms(
        title="SpecV (interleave)",
        evaluator="yuyouxixi/SpecV @ 2af3845",
        data=f"github.com/yuyouxixi/SpecV (the checkout, or its folder {DATA}).",
        licences="its licence file is empty; its README says research use.",
    )
    files = tuple(f"{INNER}/{name}" for name in (RUN, RANK, PROMPT))
    needs = ("requests", "PIL")

    def items(self, data: BenchmarkData) -> list[BenchmarkItem]:
        """Return one item per task."""
        path = data_path(data, "specv", self.terms, DATA)
        images = ImageFinder(path if path.is_dir() else path.parent, data.images)
        rows = read_rows(path, ("id", "dimension", "question"), ("question_img",))
        items: list[BenchmarkItem] = []
        for row in rows:
            text, order = _with_marks(text_in(row, "question"))
            names = row.get("question_img") or []
            if not isinstance(names, list) or any(number > len(names) for number in order):
                raise SettingsError(
                    f"The question {str(row['id'])[:80]!r} refers to an image that its row does not "
                    "have. Check the data file."
                )
            found = images.find([names[number - 1] for number in order] if order else names)
            items.append(BenchmarkItem(id_in(row, "id"), text, found, text_in(row, "dimension"), row))
        return checked(items, data.split)

    def values(
        self, submission: Path, results: Path | None, items: Iterable[BenchmarkItem]
    ) -> dict[str, Values]:
        """Read the evaluator's `results/MODEL/DIMENSION/ID.json`: lists of questions with their answers."""
        folder = given(results, "FOLDER (its results/MODEL)")
        found: dict[str, Values] = {}
        for item in items:
            path = folder / item.category / f"{item.id}.json"
            if not path.exists():
                continue
            rows = results_json(path)
            if not isinstance(rows, list) or not all(
                isinstance(row, dict) and "expected_answer" in row for row in rows
            ):
                raise SettingsError(
                    f"{str(path)!r} is not a list of questions with expected answers.",
                    "Pass the evaluator's folder results/MODEL.",
                )
            right = [str(row.get("expected_answer")) == str(row.get("answer")) for row in rows]
            found[item.id] = {"as expected": sum(right) / len(right) if right else 0.0}
        return found

    def plan(self, place: EvaluatorPaths, items: Sequence[BenchmarkItem]) -> EvaluatorPlan:
        """Return the evaluation, followed by the scoring."""
        root = place.work / "specv"
        inner = root / INNER
        inner.mkdir(parents=True)
        for name in (RUN, RANK, PROMPT):
            shutil.copyfile(place.checkout / INNER / name, inner / name)
        for item in items:
            name = f"{item.category}/{item.id}.json"
            link(root / CHECKLISTS / name, _checklist(place.checkout, item, name))
        data = [{**item.row, "question_img": [str(path.resolve()) for path in item.images]} for item in items]
        write_lines(root / DATA / "items.jsonl", data)
        link(root / "model_outputs/interleave" / MODEL, place.submission)
        environment = {
            "JUDGE_API_URL": f"{place.address}/native",
            "JUDGE_MODEL": "judge",
            "DASHSCOPE_API_KEY": place.token,
        }
        argv = ["--model-name", MODEL, "--num-processes", str(place.workers)]
        argv += ["--timeout", str(int(place.seconds))]
        jobs = [
            EvaluatorJob(inner / RUN, argv, place.work / "in", environment=environment),
            EvaluatorJob(inner / RANK, [], place.work / "in"),
        ]
        summary = inner / "scores" / MODEL / "summary.json"
        return EvaluatorPlan(jobs, inner / "results" / MODEL, lambda: _figures(summary))


def _with_marks(question: str) -> tuple[str, list[int]]:
    """Replace the image references of a question by marks.

    Returns:
        The question with marks, and the numbers of the images in their order, from 1.

    Raises:
        SettingsError: If an image has the number 0.
    """
    order = [int(number) for number in PLACEHOLDER.findall(question)]
    if 0 in order:
        raise SettingsError(
            "A question refers to [IMAGE0], but images are counted from 1. Check the data file."
        )
    return PLACEHOLDER.sub("<image>", question), order


def _checklist(checkout: Path, item: BenchmarkItem, name: str) -> Path:
    path = checkout / CHECKLISTS / name
    if not path.is_file():
        raise SettingsError(
            f"The SpecV checkout has no checklist for {item.id[:80]!r}.",
            f"Check that the folder {CHECKLISTS} is complete.",
        )
    return path


def _figures(summary: Path) -> dict[str, float]:
    found = results_object(summary)
    tracks = found.get("tracks")
    names = {name: name for name in tracks} if isinstance(tracks, dict) else {}
    return numbers_in(found, {"overall_average": "overall"}) | numbers_in(tracks, names)


BENCHMARK = SpecV()
