"""A story as a list of images with a text each, for what takes one of either at a time.

Decision: a step of words alone has no image, so the texts of the steps are no such list. Its words go to the
image before it, whose page they are read on, or to the first image where they begin the story: nothing is
lost, and no image is made up.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..types import Step, StepResult


def image_texts(results: Sequence[StepResult]) -> list[str]:
    """The text of every image that was kept, in their order; empty where there is none."""
    texts: list[str] = []
    before: list[str] = []
    for result in results:
        text = _text_of(result.step)
        if result.image is not None:
            texts.append("\n\n".join([*before, text]))
            before = []
        elif not result.step.prompt and texts:
            texts[-1] += f"\n\n{text}"
        elif not result.step.prompt:
            before.append(text)
    return texts


def _text_of(step: Step) -> str:
    return step.auxiliary_text or step.instruction or step.name or step.prompt or ""
