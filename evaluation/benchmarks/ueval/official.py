"""Runs UEval's `ueval_eval.py`, which asks about one rubric after the other through google-genai.

Its caches are off, because only the hosted service has them. Paths are absolute, because it resolves relative
ones from the current folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..base.benchmark import BenchmarkItem
from ..base.evaluator import EvaluatorPaths, EvaluatorPlan, Row, numbers_in, write_json, write_lines
from ..base.processes import EvaluatorJob
from ..base.rows import results_object
from .items import FILE, entries_of, image_names

SCRIPT = "ueval_eval.py"
FIGURES = {"text_avg_rate": "text", "image_avg_rate": "image"}


class UEvalEvaluator:
    """Evaluator of zlab-princeton/UEval."""

    files = (SCRIPT,)
    needs = ("google.genai", "datasets", "PIL")

    def plan(
        self, place: EvaluatorPaths, items: Sequence[BenchmarkItem], rows: Mapping[str, Row]
    ) -> EvaluatorPlan:
        """Return one job for all items, and jobs for parts of them."""
        answers = entries_of(place.submission / FILE)
        for entry in answers:
            entry["image_answer"] = [
                str((place.submission / "images" / name).resolve()) for name in image_names(entry)
            ]
        written = write_json(place.work / "answers.json", answers)

        def job(name: str, of: Sequence[BenchmarkItem]) -> EvaluatorJob:
            folder = place.work / name
            # The script looks answers up by the ids of its data, unconverted; ids of answers are strings.
            asked = [{**rows[item.id], "id": item.id} for item in of]
            data = write_lines(folder / "data" / "test.jsonl", asked)
            return EvaluatorJob(
                place.checkout / SCRIPT,
                [
                    "--model_output_path",
                    str(written),
                    "--output_path",
                    str(folder / "results.json"),
                    "--hf_dataset",
                    str(data.parent),
                    "--model",
                    "judge",
                    "--no_cache",
                ],
                folder,
                environment={"GEMINI_API_KEY": place.token, "GOOGLE_GEMINI_BASE_URL": place.address},
            )

        results = place.work / "whole" / "results.json"
        return EvaluatorPlan(
            [job("whole", items)],
            results,
            lambda: numbers_in(results_object(results).get("summary"), FIGURES),
            [job(f"part{number}", part) for number, part in enumerate(place.parts(items))],
        )


EVALUATOR = UEvalEvaluator()
