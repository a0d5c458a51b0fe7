"""Settings of a command in a YAML file; those of the training stages are recipes, some of them built in.

A file contains only default values for the options of the command line, for training one section per stage.
Every setting is thus described and checked in one place, and options on the command line take precedence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...backend.core.errors import SettingsError
from ...backend.core.files.bounded_reader import bounded_loader, load_yaml, read_bytes
from ...backend.core.machine.libraries import require

FOLDER = Path(__file__).parent
STAGES = ("planner-sft", "critic-sft", "critic-grpo", "planner-grpo")
MAX_BYTES = 64 * 1024


def recipe_names() -> list[str]:
    """Return the names of the built-in recipes."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml") if not path.stem.startswith("accelerate"))


def noun(stage: str) -> str:
    """Return what errors call the file of a command: a recipe if it is a training stage."""
    return "Recipe" if stage in STAGES else "Settings file"


def read_recipe(name: str, stage: str) -> dict[str, Any]:
    """Return the options of a command or stage in a file, or in a built-in recipe by its name.

    A file has one section per stage, or is one flat section. Keys are option names, with "-" or "_". Empty
    values are left out.

    Raises:
        SettingsError: The recipe cannot be read or has no settings for the stage.
    """
    label = f"{noun(stage)} {name!r}"
    content = _read(name, stage)
    sections = sorted(key for key in content if key in STAGES)
    others = [str(key)[:80] for key in content if key not in STAGES]
    if sections and others:
        raise SettingsError(
            f"{label} has the unknown section {others[0]!r}.",
            f"Sections are {', '.join(STAGES)}; settings are in a section.",
        )
    if sections and stage not in sections:
        raise SettingsError(
            f"{label} does not have a section {stage!r}.", f"Its sections are {', '.join(sections)}."
        )
    section = content[stage] if sections else content
    if not isinstance(section, dict):
        raise SettingsError(
            f"{label}, section {stage!r} is not a list of settings.",
            "Write one NAME: VALUE per line.",
        )
    values = {str(key).replace("-", "_"): value for key, value in section.items() if value is not None}
    for key, value in values.items():
        several = value if isinstance(value, list) else [value]
        if not all(isinstance(one, (str, int, float, bool)) for one in several):
            raise SettingsError(
                f"{label}, {stage}, {key[:80]}: the value is not a text, number, true or false.",
                "Give one value.",
            )
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise SettingsError(
                f"{label}, {stage}, {key[:80]}: the number is too large.", "Give a smaller one."
            )
    return values


def _read(name: str, stage: str) -> dict[str, Any]:
    try:
        path = FOLDER / f"{name}.yaml" if name in recipe_names() else Path(name)
        data = read_bytes(path, MAX_BYTES, SettingsError, noun(stage))
    except SettingsError as error:
        built_in = f", or one of {', '.join(recipe_names())}" if stage in STAGES else ""
        hint = f"Give a YAML file{built_in}."
        raise SettingsError(error.message, hint) from error
    require("yaml")
    import yaml

    content = load_yaml(data, bounded_loader(yaml.SafeLoader), noun(stage), name)
    if not isinstance(content, dict):
        raise SettingsError(
            f"{noun(stage)} {name!r} does not contain settings.", "Write one NAME: VALUE per line."
        )
    return content
