"""Runs WISE's `vllm_eval.py` on all categories at once, and its `calculate_verified.py`.

The calculator reports a score only if all 1,000 prompts are present, so it is not run on a part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ....backend.errors import SettingsError
from ....backend.files.bounded_reader import read_bytes
from ..base.benchmark import BenchmarkItem
from ..base.evaluator import EvaluatorPaths, EvaluatorPlan, Row, write_json
from ..base.processes import LOG, EvaluatorJob
from .items import CATEGORIES

SCRIPT, CALCULATOR = "vllm_eval.py", "calculate_verified.py"
SCORES = "scores.jsonl"
OVERALL = re.compile(rb"^Overall WiScore: (\d+(?:\.\d+)?)\s*$", re.MULTILINE)
MAX_LOG = 256 * 1024 * 1024


class WiseEvaluator:
    """Evaluator of PKU-YuanGroup/WISE, Verified version."""

    files = (SCRIPT, CALCULATOR)
    needs = ("requests",)

    def plan(
        self, place: EvaluatorPaths, items: Sequence[BenchmarkItem], rows: Mapping[str, Row]
    ) -> EvaluatorPlan:
        """Return the evaluation and, for all 1,000 prompts, the calculation."""
        prompts = write_json(place.work / "prompts.json", [dict(rows[item.id]) for item in items])
        folder = place.work / "results"
        given = {
            "--json_path": prompts,
            "--image_dir": place.submission.resolve(),
            "--output_dir": folder,
            "--api_key": place.token,
            "--api_base": f"{place.address}/v1",
            "--model": "judge",
            "--result_full": "full.json",
            "--result_scores": SCORES,
            "--max_workers": place.workers,
            "--timeout": int(place.seconds),
        }
        argv = [str(part) for pair in given.items() for part in pair]
        jobs = [EvaluatorJob(place.checkout / SCRIPT, argv, place.work / "in")]
        if len(items) == CATEGORIES[-1][0]:
            calculated = [str(folder / SCORES), "--category", "all"]
            jobs.append(EvaluatorJob(place.checkout / CALCULATOR, calculated, place.work / "in"))
        return EvaluatorPlan(jobs, folder, lambda: _overall(place.work / LOG))


def _overall(log: Path) -> dict[str, float]:
    found = OVERALL.findall(read_bytes(log, MAX_LOG, SettingsError, "Evaluator's log"))
    return {"overall WiScore": float(found[-1])} if found else {}


EVALUATOR = WiseEvaluator()
