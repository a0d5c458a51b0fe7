"""The commands `export`, `clips` and `put-back`, which make files from a run or from images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from ...backend.core.errors import SettingsError
from ...backend.core.types.values import DIRECT
from ...backend.models.clips import ClipOptions
from ...backend.output.exporters import export_by_name, options_of
from ...backend.output.report.export_options import LANGUAGES
from ...backend.story.execution_record.reader import FILE_NAME
from ...backend.story.loop.replay import is_record, load_trajectory
from ..models import Given
from ..progress import Lines
from ..settings import with_settings
from ..shared_options import Json, RunFolder

if TYPE_CHECKING:
    from ...backend.story.clips import ClipMade


class ExportChoices(Given):
    """Options of exports. Each format has some of them."""

    audience: bool = Field(
        default=False,
        description="Export only the texts and the final images, without verdicts, rejected attempts, "
        "prompts and names of steps.",
        json_schema_extra=DIRECT,
    )
    title: str | None = Field(
        default=None, description="Title. Default: the beginning of the request.", json_schema_extra=DIRECT
    )
    language: str | None = Field(
        default=None,
        description=f"Language of the labels in the export: {', '.join(LANGUAGES)}.",
        json_schema_extra=DIRECT,
    )
    panels: int | None = Field(
        default=None, description="Comic: images per page, 1 to 9. Default: 4.", json_schema_extra=DIRECT
    )
    lettering: str | None = Field(
        default=None,
        description="Comic: captions, balloons, none, or shots (for a storyboard). Default: captions.",
        json_schema_extra=DIRECT,
    )
    seconds: float | None = Field(
        default=None, description="gif and webp: seconds per step. Default: 2.", json_schema_extra=DIRECT
    )
    attempts: bool = Field(
        default=False, description="gif and webp: show every attempt.", json_schema_extra=DIRECT
    )
    captions: str | None = Field(
        default=None,
        description="mp4: burned in, subtitles (a track) or none. Default: burned in.",
        json_schema_extra=DIRECT,
    )
    fade: float | None = Field(
        default=None,
        description="mp4: seconds of a cross-fade, 0 to 3. Default: 0.5.",
        json_schema_extra=DIRECT,
    )


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


def put_back(
    before: Annotated[Path, typer.Argument(help="Image before the edit.")],
    after: Annotated[Path, typer.Argument(help="Image after the edit, of the same size.")],
    out: Annotated[Path, typer.Option(help="PNG file to write.")],
    as_json: Json = False,
) -> None:
    """Put the pixels of BEFORE back into AFTER where the edit did not need to change them.

    An image model shifts, tints and softens the whole image at every edit. The exit code is 0 if pixels were
    put back, and 3 if the images differ in more than an edit of a part: the written file is then AFTER.
    """
    from ...backend.core.files.atomic import write_bytes
    from ...backend.models.put_back.pictures import put_back as put_pixels_back
    from ...backend.pipeline.prepared import read_picture

    if out.suffix.lower() != ".png":
        raise SettingsError(f"--out {str(out)!r} is not a PNG file.", "Choose a name that ends with .png.")
    first, second = read_picture(before), read_picture(after)
    found = put_pixels_back(first, second)
    write_bytes(out, found.image.png(), SettingsError)
    if as_json:
        print(json.dumps({"changed": round(found.changed, 4), "refused": found.refused, "out": str(out)}))
    elif found.refused:
        Lines().say(f"Nothing was put back: {found.refused}. {out} is the image after the edit.")
    else:
        Lines().say(
            f"The edit changed {100 * found.changed:.1f} % of the image; the rest was put back: {out}"
        )
    raise typer.Exit(3 if found.refused else 0)
