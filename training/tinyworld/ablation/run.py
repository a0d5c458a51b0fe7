"""Runs the whole ablation and writes what it found; a stopped one goes on.

Decision: the folder belongs to one set of settings, so that a table never mixes two. Its minutes are the sum
of the jobs', which a stop and another start change little.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ....backend.errors import TrainingError
from ....backend.files.atomic import write_text
from ...trainer.requirements import TRAINERS, require
from ...trainer.resume import claim_run
from .job_runner import run_jobs
from .pipeline import all_jobs
from .plot import as_svg
from .settings import AblationSettings
from .table import Findings, as_markdown, collect


def ablate(
    out: Path, settings: AblationSettings, command: str, commit: str, log: Callable[[str], None]
) -> Findings:
    """Train and measure all rows below `out`; writes `ablation.json`, `ablation.md` and `ablation.svg` there.

    Raises TrainingError for a folder with other settings, and whatever a job raised.
    """
    require(*TRAINERS)
    claim_run(out, {"stage": "ablation", **settings.model_dump(exclude={"workers"})})
    run_jobs(all_jobs(out, settings), settings.workers, log)
    found = collect(out, settings, command, commit)
    texts = {"json": found.model_dump_json(indent=2) + "\n", "md": as_markdown(found), "svg": as_svg(found)}
    for ending, text in texts.items():
        write_text(out / f"ablation.{ending}", text, TrainingError, "The ablation's report")
    return found
