"""`interleave-thinker clips`: makes the videos between the images of a story."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ....backend.errors import SettingsError
from ...progress import Lines

if TYPE_CHECKING:
    from ....backend.clips.making import ClipMade


def command(
    *,
    run: Annotated[Path, typer.Argument(help="The --out folder of a run.", exists=True, file_okay=False)],
    pipeline: Annotated[
        str,
        typer.Option(help="Diffusers pipeline that takes a first and a last frame: a folder or a hub id."),
    ],
    seconds: Annotated[
        float | None,
        typer.Option(help="Seconds of a clip, rounded to a length that the model supports."),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(help="WIDTHxHEIGHT of the clips. Default: the shape of the image, in the model's size."),
    ] = None,
    fps: Annotated[float | None, typer.Option(help="Frames per second. Default: those of the model.")] = None,
    steps: Annotated[int | None, typer.Option(help="Sampling steps. Default: those of the pipeline.")] = None,
    guidance: Annotated[
        float | None, typer.Option(help="Guidance scale. Default: that of the pipeline.")
    ] = None,
    negative: Annotated[str | None, typer.Option(help="Negative prompt.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every clip.")] = 0,
    again: Annotated[bool, typer.Option("--again", help="Make all clips again.")] = False,
    device: Annotated[str | None, typer.Option(help="Device of the model. Default: the GPU.")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Dtype of the model: float32, bfloat16 or float16.")
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Download a model that is not cached.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per clip.")] = False,
) -> None:
    """Make a clip from each image of a story to the next.

    Clips that the story has are kept, unless their images, their prompt, the model or its settings changed.
    Run the same command again to resume. `export RUN --to mp4` shows the clips.
    """
    from ....backend.clips.making import clip_pairs
    from ....backend.clips.pipelines import open_clip_maker
    from ....backend.loop.replay import load_trajectory
    from ....backend.pipeline.pipeline import Story

    story = Story(load_trajectory(run), run)
    count = len(clip_pairs(story.trajectory))
    if not count:
        raise SettingsError(f"The story in {str(run)!r} has no two different images.", "Give another run.")
    given = {
        "seconds": seconds,
        "size": size,
        "fps": fps,
        "steps": steps,
        "guidance": guidance,
        "negative": negative,
        "device": device,
        "dtype": dtype,
        "download": download,
    }
    lines = Lines()
    if not as_json:
        lines.wait("Loading the model")
    maker = open_clip_maker(pipeline, **{name: value for name, value in given.items() if value is not None})

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
