"""A story as a list of images with one text each, for consumers that take one image or text at a time.

A text-only step does not have an image, so the list of step texts would not match the images. Its text is
added to the image before it, or to the first image if the story starts with text. So no text is lost and no
image is invented.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..types import Step, StepResult


def image_texts(results: Sequence[StepResult]) -> list[str]:
    """Return the text of every kept image, in order."""
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
