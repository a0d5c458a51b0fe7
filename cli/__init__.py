"""The command line `interleave-thinker`.

`--help` imports only this file; a command is imported when it is called.

Exit codes of all commands:

- 0: finished; every generated step was accepted or not judged.
- 1: error: a model, file or server cannot be used. Finished work is saved.
- 2: wrong usage: an option, name or path is not valid.
- 3: finished, but a step was not accepted (`judge`: the critic rejects the image; `train`: the new critic is
  worse and was not published).
- 4: `run` waits for the user's decision (--pause); after `approve` the same command continues.
- 130: stopped with Ctrl-C; `run`, `demo` and `data trajectories` resume when called again.
"""

from __future__ import annotations

import atexit
import gc
import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from .lazy_group import LazyGroup

EXIT_CODES = (
    "Exit codes: 0 finished, every step accepted or not judged; 1 error; 2 wrong usage; "
    "3 finished, a step not accepted; 4 waiting for approval (--pause); "
    "130 stopped (run the same command again to resume)."
)

app = typer.Typer(
    cls=LazyGroup,
    name="interleave-thinker",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_show_locals=False,
    epilog=EXIT_CODES,
)


def _print_version(requested: bool) -> None:
    if requested:
        from .. import __version__

        typer.echo(f"interleave-thinker {__version__}")
        raise typer.Exit


@app.callback(epilog=EXIT_CODES)
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Generate stories of images and texts, step by step, with any image model.

    A planner writes the steps, a generator makes the images, and a critic rejects each image until it
    matches its prompt.
    """


def main() -> None:
    """Run the command line; entry point of the console script."""
    # A console or pipe with another encoding (cp1252 on Windows) shows question marks instead of ending the
    # run.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    atexit.register(gc.freeze)  # The collections at the exit would scan a million objects of libraries.
    app(prog_name="interleave-thinker")
