"""`interleave-thinker put-back`: puts back the pixels of an image that an edit did not need to change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ...backend.drift.pictures import put_back
from ...backend.errors import SettingsError
from ...backend.files.atomic import write_bytes
from ...backend.pipeline.prepared import read_picture
from ..progress import Lines


def command(
    before: Annotated[Path, typer.Argument(help="Image before the edit.")],
    after: Annotated[Path, typer.Argument(help="Image after the edit, of the same size.")],
    out: Annotated[Path, typer.Option("--out", help="PNG file to write.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Put the pixels of BEFORE back into AFTER where the edit did not need to change them.

    An image model shifts, tints and softens the whole image at every edit. The exit code is 0 if pixels were
    put back, and 3 if the images differ in more than an edit of a part: the written file is then AFTER.
    """
    if out.suffix.lower() != ".png":
        raise SettingsError(f"--out {str(out)!r} is not a PNG file.", "Choose a name that ends with .png.")
    first, second = read_picture(before), read_picture(after)
    found = put_back(first, second)
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
