"""Runtime of a miniature picture-book world, in which the whole system runs without large models.

The checkpoints ship with the package, so that the demo, the tests and all claims about the method need
neither network nor GPU. Each folder below `checkpoints/` was made by one command
(docs/explanation/tiny-world.md).
"""

from __future__ import annotations

from pathlib import Path

from ..backend.core.errors import SettingsError

CHECKPOINTS = Path(__file__).parent / "checkpoints"
DEMO_REQUEST = (
    "Tell a story. First, draw a sea page with a red boat in the middle and a yellow sun at the top right. "
    "Then a blue fish appears at the bottom left. Next, the boat goes to the left side. "
    "After that, set the scene to night. Now replace the sun with a white moon. "
    "Finally, write only the words: Good night. Write a caption for every picture."
)
# A seed whose story shows the critic at work: two images are rejected, one because of a bias (at night the
# sun became a moon) and one by chance, and all are correct in the end (docs/explanation/tiny-world.md).
DEMO_SEED = 24


def checkpoint(name: str) -> Path:
    """Return the folder of a shipped checkpoint: `planner`, `critic` or `generator`.

    Raises:
        SettingsError: If it is missing.
    """
    folder = CHECKPOINTS / name
    if not folder.is_dir():
        raise SettingsError(
            f"The tiny world's {name} is missing: {str(folder)!r} does not exist.",
            f"Reinstall the package, or train it: interleave-thinker train tinyworld-{name}.",
        )
    return folder
