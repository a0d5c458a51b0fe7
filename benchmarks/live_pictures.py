"""How many bytes of pictures the live view fetches for a try: full PNG files, and small WebP as it does now.

    python benchmarks/live_pictures.py PICTURE... [--side 1024]

Each picture is cut to a square of this side and stands for one try. The row of steps and the list of tries
show one small copy of it, the comparison on the node two larger ones a step; the full file comes when it is
opened.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image, ImageOps

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)

import tests.conftest  # noqa: E402, F401 - makes the checkout importable as interleave_thinker
from interleave_thinker.backend.journal.files import RunFiles  # noqa: E402
from interleave_thinker.backend.pictures import Picture  # noqa: E402
from interleave_thinker.nodes.live.thumbnails import SIZES, Thumbnails  # noqa: E402


def main() -> None:
    """Print a line for every picture and one for their mean."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pictures", nargs="+", type=Path)
    parser.add_argument("--side", type=int, default=1024)
    given = parser.parse_args()
    rows: list[tuple[float, ...]] = []
    with tempfile.TemporaryDirectory() as name:
        folder, thumbnails = Path(name), Thumbnails()
        for path in given.pictures:
            square = ImageOps.fit(Image.open(path).convert("RGB"), (given.side, given.side))
            picture = Picture(square)
            RunFiles(folder).write_picture(picture)
            full = (folder / "pictures" / f"{picture.digest}.png").stat().st_size
            began = time.monotonic()
            small = [len(thumbnails.webp(folder, picture.digest, size)) for size in SIZES]
            rows.append((full, *small, 1000 * (time.monotonic() - began) / len(SIZES)))
            print(row(path.name[:30], rows[-1]))
    print(row("mean", [sum(column) / len(rows) for column in zip(*rows, strict=True)]))


def row(name: str, values: tuple[float, ...] | list[float]) -> str:
    """One line: bytes of the PNG and of each size, and the milliseconds that one small copy took."""
    full, *small, milliseconds = values
    sizes = ", ".join(f"{side}: {count:,.0f}" for side, count in zip(SIZES, small, strict=True))
    return f"{name:30} png {full:,.0f} | webp {sizes} | {milliseconds:.0f} ms each | 1/{full / small[0]:.0f}"


if __name__ == "__main__":
    main()
