"""Runs SpecV's `eval/interleave/run_eval.py` and `score_and_rank.py`.

Both read and write next to their own file. They are therefore copied into a folder of the run, together with
the data, checklists and submission, and the checkout stays unchanged.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from ....backend.errors import SettingsError
from ..base.benchmark import BenchmarkItem
from ..base.evaluator import EvaluatorPaths, EvaluatorPlan, Row, link, numbers_in, write_lines
from ..base.processes import EvaluatorJob
from ..base.rows import results_object

INNER = "eval/interleave"
RUN, RANK, PROMPT = "run_eval.py", "score_and_rank.py", "eval_prompt.txt"
CHECKLISTS = "eval_checklist/interleave"
MODEL = "answers"


class SpecVEvaluator:
    """Evaluator of yuyouxixi/SpecV, interleaved track."""

    files = tuple(f"{INNER}/{name}" for name in (RUN, RANK, PROMPT))
    needs = ("requests", "PIL")

    def plan(
        self, place: EvaluatorPaths, items: Sequence[BenchmarkItem], rows: Mapping[str, Row]
    ) -> EvaluatorPlan:
        """Return the evaluation, followed by the scoring."""
        root = place.work / "specv"
        inner = root / INNER
        inner.mkdir(parents=True)
        for name in (RUN, RANK, PROMPT):
            shutil.copyfile(place.checkout / INNER / name, inner / name)
        for item in items:
            name = f"{item.category}/{item.id}.json"
            link(root / CHECKLISTS / name, _checklist(place.checkout, item, name))
        data = [
            {**rows[item.id], "question_img": [str(path.resolve()) for path in item.images]} for item in items
        ]
        write_lines(root / "eval_data/interleave/items.jsonl", data)
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


EVALUATOR = SpecVEvaluator()
