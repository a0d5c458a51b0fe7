"""`data guard`: keeps benchmark items out of training data.

It reads the user's copies of the benchmarks. Nothing of them is included in the package or downloaded.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ...backend.errors import SettingsError
from ...backend.files.atomic import write_text
from ...backend.shown_text import one_line

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Keep benchmark items out of training data."
)

Index = Annotated[Path, typer.Option(help="Benchmark index, made by `data guard add`.")]
ImagesIn = Annotated[
    Path | None, typer.Option(help="Folder of the images, if they are not next to the file.")
]
MAX_SHOWN = 20


@app.callback()
def guard() -> None:
    """Keep benchmark items out of training data."""


@app.command("add")
def add(
    kind: Annotated[
        str,
        typer.Argument(help="ueval, wise, rise, specv or comm, or file for any other file of rows or lines."),
    ],
    path: Annotated[
        Path,
        typer.Argument(help="Your copy of the benchmark: a JSON, JSONL, Parquet or text file, or a folder."),
    ],
    index: Index = Path("guard.sqlite"),
    name: Annotated[
        str, typer.Option(help="Name in reports, for kind `file`. Default: the name of the file.")
    ] = "",
    images: ImagesIn = None,
) -> None:
    """Add a benchmark to the index.

    The index contains only hashes of its texts, titles, ids and images, from which they cannot be restored.
    """
    from ...training.data.decontamination.benchmarks import (
        FILE,
        KINDS,
        ItemsRead,
        digest_of,
        files_of,
        items_of,
    )
    from ...training.data.decontamination.index import BenchmarkIndex

    if kind not in KINDS:
        raise SettingsError(f"{kind!r} is not a known benchmark.", f"Use one of: {', '.join(KINDS)}.")
    files = files_of(path)
    with BenchmarkIndex.create(index) as opened:
        for file in files:
            read = ItemsRead()
            label = kind if kind != FILE else one_line(name or file.stem)[:80]
            added = opened.add(label, items_of(kind, file, read, images), digest_of(file))
            if added is None:
                typer.echo(one_line(f"{file.name}: already in the index"))
                continue
            lines = [f"{added.items} items", f"{added.images} images"]
            if read.without_fields:
                lines.append(f"{read.without_fields} rows without a text")
            if read.missing_images:
                lines.append(f"{len(read.missing_images)} images not found")
            typer.echo(one_line(f"{file.name}: {', '.join(lines)}"))
    typer.echo(f"guard: {index}")


@app.command("check")
def check(
    files: Annotated[
        list[Path], typer.Argument(help="Files of rows: requests, training data, external datasets.")
    ],
    index: Index = Path("guard.sqlite"),
    images: ImagesIn = None,
    report: Annotated[Path | None, typer.Option(help="JSON file for all matches.")] = None,
) -> None:
    """List the rows that come from a benchmark.

    The exit code is 3 if there are any.
    """
    from ...training.data.decontamination.checking import check_file
    from ...training.data.decontamination.index import BenchmarkIndex

    found, written = 0, {}
    with BenchmarkIndex.open(index) as opened:
        for file in files:
            result = check_file(opened, file, images)
            written[str(file)] = result.as_json()
            found += sum(result.by_benchmark.values())
            by = ", ".join(f"{name} {count}" for name, count in sorted(result.by_benchmark.items()))
            typer.echo(
                one_line(
                    f"{file.name}: "
                    f"{result.rows} rows, {result.images} images ({result.missing_images} not found); "
                    f"from a benchmark: {by or 'none'}"
                )
            )
            for one in result.found[:MAX_SHOWN]:
                typer.echo(one_line(f"  row {one.row} {one.id}: {one.finding}"))
    if report is not None:
        write_text(report, json.dumps(written, indent=1, ensure_ascii=False), SettingsError, "Report")
    if found:
        raise typer.Exit(3)
