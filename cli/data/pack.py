"""`data pack`: folders of rows become shards, or the published tree, to share, with a card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ...backend.shown_text import shown_text
from ...training.data.pack.settings import CardData
from ..options.models import with_model_options


@with_model_options
def command(
    *,
    folders: Annotated[
        list[Path], typer.Argument(help="Folders of rows, as filter, planner-rows and sequences leave them.")
    ],
    out: Annotated[Path, typer.Option(help="New folder for what is packed and the card.")],
    form: Annotated[
        Literal["hf", "parquet", "webdataset", "published"],
        typer.Option(
            "--as",
            help="hf and parquet: Parquet that load_dataset opens; webdataset: tar shards; published: "
            "the published tree, with the trajectories of --runs.",
        ),
    ] = "hf",
    runs: Annotated[
        list[Path] | None,
        typer.Option(help="The runs that the rows were made of; the card names their makers."),
    ] = None,
    prefix: Annotated[
        str,
        typer.Option(help="Put before every path of a published tree: the folder where it is going to lie."),
    ] = "",
    source: Annotated[
        list[str] | None, typer.Option(help="An outside set as NAME=LICENCE, such as CoMM=cc-by-4.0; repeat.")
    ] = None,
    guard_report: Annotated[
        Path | None, typer.Option(help="Report of `data guard check`; without it the card says: not checked.")
    ] = None,
    guard: Annotated[
        Path | None, typer.Option(help="Index of benchmarks (`data guard`), of which nothing is packed.")
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option("--skip-bad", help="Leave out rows with images that are missing or damaged, listed."),
    ] = False,
    about: CardData,
) -> None:
    """Pack rows and their images into shards, with a card that says who made them and what is not known."""
    from ...training.data.pack.pack import Packing

    packing = Packing(
        form,
        about,
        runs or [],
        source or [],
        guard_report,
        guard,
        prefix,
        skip_bad,
        lambda line: typer.echo(shown_text(line)),
    )
    packing.pack(folders, out)
    typer.echo(f"\npacked: {out}")


def inspect(
    *,
    path: Annotated[Path, typer.Argument(help="A file of rows, or a folder of them.", exists=True)],
    page: Annotated[Path | None, typer.Option(help="Write a page of samples here.")] = None,
    samples: Annotated[int, typer.Option(min=1, max=1000, help="Rows of each file on the page.")] = 20,
    images: Annotated[
        Path | None,
        typer.Option(help="Folder below which images are looked for, too; of a published tree its own."),
    ] = None,
) -> None:
    """Show what is in files of rows: counts, images that are missing, verdicts, plans; and samples as a
    page."""
    from ...training.data.pack.inspect import inspect as look
    from ...training.data.pack.inspect import write_samples

    lines, found = look(path, samples if page else 0, images)
    for line in lines:
        typer.echo(shown_text(line))
    if page:
        write_samples(page, found, images)
        typer.echo(f"\npage: {page}")
