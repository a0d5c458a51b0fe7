"""`data pack` packs rows into shards with a dataset card; `data inspect` shows what is in files of rows."""

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
        list[Path], typer.Argument(help="Folders of rows, made by filter, planner-rows or sequences.")
    ],
    out: Annotated[Path, typer.Option(help="New folder for the packed dataset and its card.")],
    form: Annotated[
        Literal["hf", "parquet", "webdataset", "published"],
        typer.Option(
            "--as",
            help="Format. hf and parquet: Parquet files for load_dataset; webdataset: tar shards; "
            "published: the folder "
            "tree of the published dataset, with the trajectories of --runs.",
        ),
    ] = "hf",
    runs: Annotated[
        list[Path] | None,
        typer.Option(help="Run folders that the rows were made from. The card names their models."),
    ] = None,
    prefix: Annotated[
        str,
        typer.Option(help="Prefix of all paths in a published tree: the folder that it will be in."),
    ] = "",
    source: Annotated[
        list[str] | None,
        typer.Option(help="External dataset as NAME=LICENSE, such as CoMM=cc-by-4.0. Repeat for several."),
    ] = None,
    guard_report: Annotated[
        Path | None,
        typer.Option(help="Report of `data guard check`. Without it, the card says: not checked."),
    ] = None,
    guard: Annotated[
        Path | None, typer.Option(help="Benchmark index (`data guard`). Matching rows are left out.")
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad",
            help="Skip rows with missing or damaged images instead of stopping. They are listed.",
        ),
    ] = False,
    about: CardData,
) -> None:
    """Pack rows and their images into shards, with a dataset card about their origin."""
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
    path: Annotated[Path, typer.Argument(help="File of rows, or a folder of such files.", exists=True)],
    page: Annotated[Path | None, typer.Option(help="HTML file for sample rows.")] = None,
    samples: Annotated[int, typer.Option(min=1, max=1000, help="Number of sample rows per file.")] = 20,
    images: Annotated[
        Path | None,
        typer.Option(
            help="Second folder in which to look for images. Default for a published tree: the tree."
        ),
    ] = None,
) -> None:
    """Show what is in files of rows: counts, missing images, verdicts and plans; with --page also samples."""
    from ...training.data.pack.inspect import inspect as look
    from ...training.data.pack.inspect import write_samples

    lines, found = look(path, samples if page else 0, images)
    for line in lines:
        typer.echo(shown_text(line))
    if page:
        write_samples(page, found, images)
        typer.echo(f"\npage: {page}")
