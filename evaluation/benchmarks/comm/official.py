"""Runs CoMM's `eval/eval_metric.py` for tasks 3 and 4, and computes means with `eval/cal_gpt4o_score.py`.

The script writes its results below the current folder, so it runs in a folder of the run that contains a link
to its prompts. For these tasks it needs the ground truth only as a list of names. Evaluation and means are
separate processes, because the script does not wait for its threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..base.benchmark import BenchmarkItem
from ..base.evaluator import EvaluatorPaths, EvaluatorPlan, Row, link, numbers_in, write_json
from ..base.processes import EvaluatorJob
from ..base.rows import results_object

INNER = "eval"
EVALUATION, MEANS, METRICS = "eval_metric.py", "cal_gpt4o_score.py", "tot_metric"
TASKS = ("task3", "task4")
MODEL = "judge"


class CommEvaluator:
    """Evaluator of HKUST-LongGroup/CoMM."""

    files = (f"{INNER}/{EVALUATION}", f"{INNER}/{MEANS}", f"{INNER}/{METRICS}/gpt4o_eval.py")
    needs = ("openai", "PIL", "tqdm")

    def plan(
        self, place: EvaluatorPaths, items: Sequence[BenchmarkItem], rows: Mapping[str, Row]
    ) -> EvaluatorPlan:
        """Return the evaluation of both tasks, followed by their means."""
        names = sorted({item.id.rpartition("_")[0] for item in items})
        truth = write_json(place.work / "truth.json", [{"data_id": name} for name in names])
        whole = place.work / "whole"
        tasks = [task for task in TASKS if any(item.id.endswith(task) for item in items)]
        jobs = _evaluations(place, whole, items, truth, tasks)
        tables = {task: place.work / f"means-{task}.json" for task in tasks}
        answers = whole / "answers" / "all"
        for task, table in tables.items():
            argv = [str(answers), MODEL, task]
            script = place.checkout / INNER / MEANS
            jobs.append(EvaluatorJob(script, argv, whole, kind="comm scores", more={"table": str(table)}))
        parts: list[EvaluatorJob] = []
        for number, part in enumerate(place.parts(items)):
            parts += _evaluations(place, place.work / f"part{number}", part, truth, tasks)
        results = whole / "results" / MODEL / "answers" / "all"
        return EvaluatorPlan(jobs, results, lambda: _means(tables), parts)


def _evaluations(
    place: EvaluatorPaths, folder: Path, items: Sequence[BenchmarkItem], truth: Path, tasks: Sequence[str]
) -> list[EvaluatorJob]:
    """Return the evaluator's calls for some items, in a separate folder."""
    answers = folder / "answers" / "all"
    for item in items:
        link(answers / item.id, place.submission / item.id)
    inner = place.checkout.resolve() / INNER
    link(folder / METRICS, inner / METRICS)
    return [
        EvaluatorJob(
            inner / EVALUATION,
            [
                "--predict_results_path",
                str(answers.absolute()),
                "--model_type",
                MODEL,
                "--task_type",
                task,
                "--ground_truth_path",
                str(truth.absolute()),
            ],
            folder,
            path=(place.checkout.resolve(), inner),
            kind="comm",
            more={"key": place.token, "folder": str(inner)},
            environment={"OPENAI_BASE_URL": f"{place.address}/v1"},
        )
        for task in tasks
    ]


def _means(tables: Mapping[str, Path]) -> dict[str, float]:
    found: dict[str, float] = {}
    for task, table in tables.items():
        means = results_object(table)
        found |= numbers_in(means, {name: f"{task} {name}" for name in means})
    return found


EVALUATOR = CommEvaluator()
