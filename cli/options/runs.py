"""Options shared by commands that read finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...training.data.from_runs.settings import EXACT

if TYPE_CHECKING:
    from ...training.data.from_runs.attempts import Oracle

Runs = Annotated[
    list[Path], typer.Argument(help="Run folders (--out of `run`), or folders that contain run folders.")
]
SkipBadRuns = Annotated[
    bool,
    typer.Option("--skip-bad", help="Skip damaged runs instead of stopping. They are counted and listed."),
]
SCORERS = "judge:CHAT, tinyworld or a plug-in"
"""Part of the help of options that choose a scorer."""
Score = Annotated[
    str | None,
    typer.Option(
        "--scorer", help=f"Scorer for images without a score: {SCORERS}. Default: they stay without one."
    ),
]


def oracle_of(reasoning: str) -> Oracle | None:
    """Return the tiny world's oracle if exact reasoning is requested, otherwise None."""
    if reasoning != EXACT:
        return None
    from ...tinyworld.lab.data.critic_rows import OracleCritic

    return OracleCritic()
