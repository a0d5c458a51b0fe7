"""Options of commands that read finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...training.data.from_runs.settings import EXACT

if TYPE_CHECKING:
    from ...training.data.from_runs.attempts import Oracle

Runs = Annotated[list[Path], typer.Argument(help="The --out folders of runs, or folders of such folders.")]
SkipBadRuns = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out runs that are damaged, counted and listed.")
]
Score = Annotated[
    str | None,
    typer.Option(
        "--scorer", help="Who scores images that have no score: tinyworld, or judge:CHAT; empty: nobody."
    ),
]


def oracle_of(reasoning: str) -> Oracle | None:
    """Who writes exact reasoning: the demo world's oracle, where it is asked for."""
    if reasoning != EXACT:
        return None
    from ...tinyworld.lab.data.oracle_critic import OracleCritic

    return OracleCritic()
