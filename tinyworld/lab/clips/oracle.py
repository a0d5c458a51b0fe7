"""The oracle for clips: compares all frames with the exact ones, pixel by pixel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ....backend.pictures import Picture
from ....backend.types import Verdict
from ...runtime.reading import read_image
from ...runtime.scene import Edit, Scene
from .in_between import ClipScript, frames_of
from .planted import Kind, read_clip_prompt


def fault_in(frames: Sequence[Picture], prompt: str) -> Kind | None:
    """Return the fault of a clip; `None` if all frames are exact.

    A stranger is reported as a vanished thing, since the same clause prevents both.

    Args:
        frames: All frames of the clip.
        prompt: Prompt of the step.
    """
    before, read = read_image(frames[0]).scene, read_clip_prompt(prompt)
    assert before is not None and read is not None, "the clip is of the tiny world"
    exact = _exact(before, read.edit, len(frames))
    if tuple(frames) == exact:
        return None
    if frames[-1] != exact[-1]:
        return "wrong direction"
    return "jump" if all(one in (exact[0], exact[-1]) for one in frames) else "vanished"


class OracleClipCritic:
    """Judges clips without error. Its refined prompts have a clause against the fault."""

    identity = "tinyworld clips oracle"

    def judge_clip(self, frames: Sequence[Picture], original_prompt: str, prompt_used: str) -> Verdict:
        """Return the verdict on a clip. See `pipeline.clips.critic.ClipCritic`."""
        kind = fault_in(frames, original_prompt)
        before, used = read_image(frames[0]).scene, read_clip_prompt(prompt_used)
        if kind is None or before is None or used is None:
            return Verdict(success=kind is None, refined_prompt=prompt_used)
        return Verdict(success=False, refined_prompt=used.against(kind, before).text())


@lru_cache(maxsize=512)
def _exact(before: Scene, edit: Edit, count: int) -> tuple[Picture, ...]:
    return frames_of(ClipScript(before, edit.apply(before)), count)
