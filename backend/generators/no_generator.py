"""Represents the generator of a run whose plan has only text-only steps."""

from __future__ import annotations

from ..errors import SettingsError
from ..pictures import Picture
from ..types import MAX_STEP_IMAGES, Plan

CONNECT = "Choose a generator, or remove the prompt of every step from the plan."


class NoGenerator:
    """Generates nothing. Its identity is empty, as that of a critic that a run does not have."""

    identity = ""
    max_reference_images = MAX_STEP_IMAGES - 1
    """The maximum that a step can have, so that no setting is rejected for an image that is never made."""

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Raise an error, since the run does not have an image model.

        Raises:
            SettingsError: Always.
        """
        raise SettingsError("The run has no generator.", CONNECT)


def check_text_only(plan: Plan) -> None:
    """Check that a plan can be carried out without a generator.

    Raises:
        SettingsError: A step has a prompt. The message names the steps.
    """
    numbers = [step.number for step in plan.steps if step.prompt]
    if numbers:
        named = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
        some = "Step" if len(numbers) == 1 else "Steps"
        verb = "generates an image" if len(numbers) == 1 else "generate images"
        raise SettingsError(f"{some} {named} {verb}, but the run has no generator.", CONNECT)
