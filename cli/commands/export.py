"""The commands `export` and `clips`, which make files from a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...backend.core.errors import SettingsError
from ...backend.core.types.values import option
from ...backend.models.clips import ClipOptions
from ...backend.output.exporters import export_by_name, options_of
from ...backend.output.report.export_options import LANGUAGES
from ...backend.story.execution_record.reader import FILE_NAME
from ...backend.story.loop.replay import is_record, load_trajectory
from ..models import Given
from ..progress import Lines
from ..settings import with_settings
from ..shared_options import RunFolder

if TYPE_CHECKING:
    from ...backend.story.clips import ClipMade


class ExportChoices(Given):
    """Options of exports. Each format has some of them."""

    audience: bool = option(
        "Export only the texts and the final images, without verdicts, rejected attempts, "
        "prompts and names of steps.",
        False,
    )
    title: str | None = option("Title. Default: the beginning of the request.")
    language: str | None = option(f"Language of the labels in the export: {', '.join(LANGUAGES)}.")
    panels: int | None = option("Comic: images per page, 1 to 9. Default: 4.")
    lettering: str | None = option(
        "Comic: captions, balloons, none, or shots (for a storyboard). Default: captions."
    )
    seconds: float | None = option("gif and webp: seconds per step. Default: 2.")
    attempts: bool = option("gif and webp: show every attempt.", False)
    captions: str | None = option("mp4: burned in, subtitles (a track) or none. Default: burned in.")
    fade: float | None = option("mp4: seconds of a cross-fade, 0 to 3. Default: 0.5.")


@with_settings
def export(
    *,
    folder: Annotated[
        Path,
        typer.Argument(help="The --out folder of a run, the .zip file of a story, or an execution record."),
    ],
    to: Annotated[
        str,
        typer.Option(
            help="Format: page (HTML), pdf, book (picture book as PDF), epub (e-book), comic (CBZ), "
            "comic-pdf, comic-png, gif, webp, mp4, markdown, sheet (PNG contact sheet), record or story "
            "(JSON), or zip (the whole run in one file)."
        ),
    ] = "page",
    out: Annotated[
        Path | None,
        typer.Option(help="Output folder. Default: the run folder, or a folder next to the .zip file."),
    ] = None,
    choices: ExportChoices,
) -> None:
    """Write a run as a page, PDF, book, comic, animation, video, Markdown, sheet, record or .zip file.

    The run may be unfinished. Prints the path of the main file.
    """
    options = choices.given
    supported = options_of(to)
    unknown = sorted(options.keys() - supported)
    if unknown:
        names = [name for name in ExportChoices.model_fields if name in supported]
        raise SettingsError(
            f"The format {to!r} does not support {' and '.join(f'--{name}' for name in unknown)}.",
            f"It supports: {', '.join(f'--{name}' for name in names) or 'no options'}.",
        )
    record = folder if folder.is_file() else folder / FILE_NAME
    overwrites = out is None or (out / FILE_NAME).resolve() == record.resolve()
    if to == "record" and overwrites and is_record(folder):
        raise SettingsError(
            f"Exporting {str(folder)!r} as a record would overwrite it.", "Give another folder with --out."
        )
    own = folder.with_suffix("") if folder.is_file() else folder
    print(export_by_name(to, load_trajectory(folder), out or own, **options))


@with_settings
def clips(
    *,
    run: RunFolder,
    pipeline: Annotated[
        str,
        typer.Option(help="Diffusers pipeline that takes a first and a last frame: a folder or a hub id."),
    ],
    seed: Annotated[int, typer.Option(min=0, help="Seed of every clip.")] = 0,
    again: Annotated[bool, typer.Option("--again", help="Make all clips again.")] = False,
    options: ClipOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per clip.")] = False,
) -> None:
    """Make a clip from each image of a story to the next.

    Clips that the story has are kept, unless their images, their prompt, the model or its settings changed.
    Run the same command again to resume. `export RUN --to mp4` shows the clips.
    """
    from ...backend.models.clips import open_clip_maker
    from ...backend.pipeline.pipeline import Story
    from ...backend.story.clips import clip_pairs

    story = Story(load_trajectory(run), run)
    count = len(clip_pairs(story.trajectory))
    if not count:
        raise SettingsError(f"The story in {str(run)!r} has no two different images.", "Give another run.")
    lines = Lines()
    if not as_json:
        lines.wait("Loading the model")
    maker = open_clip_maker(pipeline, **options.model_dump(include=options.model_fields_set))

    def show(made: ClipMade) -> None:
        clip = made.clip
        if as_json:
            step, file = made.pair.step, f"clips/{clip.movie.digest}.mp4"
            found = {"step": step, "file": file, "seconds": round(clip.seconds, 3), "cached": made.cached}
            print(json.dumps(found), flush=True)
        else:
            how = "cached" if made.cached else f"made in {clip.took:.1f} s"
            lines.say(f"Step {made.pair.step}: clip of {clip.seconds:.1f} s, {how}")
            lines.wait("Making the next clip")

    try:
        story.make_clips(maker, seed=seed, again=again, on_clip=show)
    finally:
        lines.wait("")
    if not as_json:
        lines.say(f"{count} clips in {run / 'clips'}")
