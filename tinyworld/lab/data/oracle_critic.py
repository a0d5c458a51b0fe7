"""What the tiny world's critic should have said of a page, written from the pixels and the prompts alone.

Decision: it is the maker of the shipped critic's own rows, so that a critic taught from runs goes on in the
same words. It speaks only where the pages say the same as whoever gave the verdict: a reasoning that
contradicts it would teach nonsense.
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
    """A page of a run as the row makers want it; None if a prompt is foreign or the page before cannot be
    read."""
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
    """Writes the exact reasoning and the right refined prompt."""

    def answer(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str, success: bool
    ) -> Verdict | None:
        """The answer to learn, None where the pages cannot be read or say the opposite of `success`."""
        drawn = drawn_of(before, after, original_prompt, prompt_used)
        return verdict_of(drawn) if drawn is not None and drawn.success == success else None
