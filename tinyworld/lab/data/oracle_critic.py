"""The oracle: writes the correct critic's answer to an image, from the pixels and prompts alone.

It also writes the rows of the shipped critic, so a critic trained on runs keeps the same format. It answers
only if the pixels agree with the given verdict, because a contradicting reasoning would teach nonsense.
"""

from __future__ import annotations

from ....backend.pictures import Picture
from ....backend.types import Verdict
from ...runtime.reading import is_blank, read_image
from ...runtime.scene import StartScene
from ...runtime.wording import read_prompt
from ..world.judged_images import DrawnImage
from .critic_rows import verdict_of


def drawn_of(
    before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
) -> DrawnImage | None:
    """Convert an image of a run to the form of the row builders.

    Returns `None` if a prompt is not of the tiny world or the image before cannot be read.
    """
    wish, used = read_prompt(original_prompt), read_prompt(prompt_used)
    if wish is None:
        return None
    edit, _ = wish
    page = None if before is None or is_blank(before) else before
    scene = read_image(page).scene if page else None
    if scene is None and (page is not None or not isinstance(edit, StartScene)):
        return None
    clauses = tuple(used[1]) if used else ()
    return DrawnImage(page, scene, edit, clauses, after, read_image(after))


class OracleCritic:
    """Writes exact reasoning and correct refined prompts."""

    def answer(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str, success: bool
    ) -> Verdict | None:
        """Return the answer to learn; `None` if the images cannot be read or contradict `success`."""
        drawn = drawn_of(before, after, original_prompt, prompt_used)
        return verdict_of(drawn) if drawn is not None and drawn.success == success else None
