"""`interleave-thinker parity`: compares the published code with this package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ...evaluation.parity.comparison import Comparison

NOT_COMPARED = (
    "Not compared: decoding, text-only steps, empty refined prompts, replies that cannot be parsed, and the "
    "numbers of the seeds."
)


def command(
    checkout: Annotated[
        Path,
        typer.Argument(
            help="Your checkout of github.com/zhengdian1/InterleaveThinker. Its code is executed with your "
            "rights, in a child process without your API keys."
        ),
    ],
) -> None:
    """Run the published code and this package on the same scripted cases, and compare what they do.

    No weights are needed: planner, critic and generator are scripted on both sides. It compares all requests
    (word for word), images, prompts, attempts, texts and final images. The exit code is 0 if all are equal.
    Otherwise it is 3, and the first difference is printed.
    """
    from ...evaluation.parity.official import compare_checkout

    prompts, found = compare_checkout(checkout)
    published = "the published one" if prompts.is_published else "not the known published one"
    typer.echo(f"Prompt set of the checkout: {prompts.digest} ({published}).")
    for comparison in found:
        typer.echo()
        _show(comparison)
    typer.echo(f"\n{NOT_COMPARED}")
    first = next((one.first for one in found if one.first), None)
    if first is None:
        typer.secho("No difference.", fg="green")
        return
    typer.secho(f"First difference: {first.place}.", fg="red")
    typer.echo(f"  published: {first.theirs!r}\n  ours:      {first.ours!r}")
    raise typer.Exit(3)


def _show(one: Comparison) -> None:
    """Print the comparison with a class as a table. A number is a number of equal items."""
    typer.secho(one.name, bold=True)
    rows = {"Equal items per case": one.cases, **one.rows}
    widths = [max(map(len, column)) for column in zip(*rows.values(), strict=True)]
    title_width = max(map(len, rows))
    for title, cells in rows.items():
        padded = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        typer.echo(f"  {title.ljust(title_width)}  {padded}")
    if one.line_breaks:
        typer.echo(
            f"  Not counted: a line break before the text of {one.line_breaks} requests to the critic, which "
            "UEval/ueval_klein.py does not have."
        )
