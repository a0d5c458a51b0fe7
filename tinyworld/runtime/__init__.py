"""A miniature picture-book world in which the whole system is real and small: what runs where no model is at
hand.

Decision: the checkpoints ship with the package, so that the demo, the tests and every claim about the method
need neither a network nor a GPU. Each folder below `checkpoints/` was made by one command
(docs/explanation/tiny-world.md).
"""

from __future__ import annotations

from pathlib import Path

from ...backend.errors import SettingsError

CHECKPOINTS = Path(__file__).parent / "checkpoints"
DEMO_REQUEST = (
    "Tell a story. First, draw a sea page with a red boat in the middle and a yellow sun at the top right. "
    "Then a blue fish appears at the bottom left. Next, the boat goes to the left side. "
    "After that, set the scene to night. Now replace the sun with a white moon. "
    "Finally, write only the words: Good night. Write a caption for every picture."
)
# A seed whose story shows the critic at work: two pages are refused, one for a bias (at night the sun became
# a moon) and one by bad luck, and all come out right (docs/explanation/tiny-world.md).
DEMO_SEED = 24


def checkpoint(name: str) -> Path:
    """Folder of a shipped checkpoint: `planner`, `critic` or `generator`; raises SettingsError if it is not
    there."""
    folder = CHECKPOINTS / name
    if not folder.is_dir():
        raise SettingsError(
            f"The tiny world's {name} is not at {str(folder)!r}.",
            f"Install the package again, or make it: interleave-thinker train tinyworld-{name}.",
        )
    return folder
