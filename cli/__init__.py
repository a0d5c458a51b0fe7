"""The command line `interleave-thinker`. This file is all that `--help` imports; every command is loaded when
called.

Exit codes, the same for every command:

- 0: done; every drawn step was accepted (or no critic was asked).
- 1: an error: a model, file or server that cannot be used; nothing finished is lost.
- 2: wrong usage: an option, name or path that cannot be used.
- 3: done, but some step was not accepted (`judge`: the critic said no; `train`: the critic is worse, not
  published; `data guard check`: rows were taken from a benchmark).
- 130: stopped with Ctrl-C; `run`, `demo` and `data trajectories` go on when called again.
"""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from .lazy_group import LazyGroup

EXIT_CODES = (
    "Exit codes: 0 every step accepted (or not judged), 1 error, 2 wrong usage, "
    "3 finished with a step not accepted, 130 stopped (run again to go on)."
)

app = typer.Typer(
    cls=LazyGroup,
    name="interleave-thinker",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    epilog=EXIT_CODES,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        typer.echo(f"interleave-thinker {__version__}")
        raise typer.Exit


@app.callback(epilog=EXIT_CODES)
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")] = False,
) -> None:
    """Any image model tells a story in steps: a planner writes them, a generator draws, a critic has it
    redrawn."""


def main() -> None:
    """Entry point of the console script."""
    # A console or pipe of another encoding (cp1252 on Windows) shows a question mark for what it lacks; it
    # ends no run.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    app(prog_name="interleave-thinker")
