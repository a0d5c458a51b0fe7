"""Files that the steps of a plan text name: images in the input folder, LoRAs in the LoRA folders."""

from __future__ import annotations

from pathlib import Path

from ...backend.errors import SettingsError
from ...backend.files.step_images import image_files, with_step_images
from ...backend.plan_editor.edited_plan import EditedPlan
from ...backend.plan_editor.merge import read_edits
from ...backend.types import Plan
from .. import host


def check_files(edits: EditedPlan) -> None:
    """Check that the files named by steps exist.

    Raises:
        SettingsError: A file is not in the host's folders. The message names the step.
    """
    with_step_images(_named_images(edits), host.input_folder())
    for one in edits.steps:
        lora = one.step.settings.lora
        if lora is not None and host.lora_file(lora.name) is None:
            raise SettingsError(
                f"Step {one.step.number}, lora: {lora.name!r} does not exist in models/loras.",
                "Put it there and press R, or change the plan.",
            )


def files_edition(edits: str) -> str:
    """Return a string that changes when a file named by a plan text is written."""
    try:
        written = read_edits(edits)
        if written is None:
            return ""
        files = [*image_files(_named_images(written), host.input_folder()), *_lora_files(written)]
        states = [path.stat() for path in files]
    except (SettingsError, OSError):
        return ""  # reported as an error when the node runs
    return " ".join(f"{state.st_ino}.{state.st_size}.{state.st_mtime_ns}" for state in states)


def _lora_files(edits: EditedPlan) -> list[Path]:
    loras = (one.step.settings.lora for one in edits.steps)
    found = [host.lora_file(lora.name) for lora in loras if lora is not None]
    return [file for file in found if file is not None]


def _named_images(edits: EditedPlan) -> Plan:
    """Return a plan with the images that edits name. Its steps may name members of the planner's cast."""
    steps = (one.step.model_copy(update={"cast": None}) for one in edits.steps)
    return Plan(steps=tuple(steps), cast=edits.cast)
