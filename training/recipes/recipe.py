"""Recipes: settings of the training stages in a YAML file, the shipped ones by name.

Decision: a recipe is nothing but default values of the command line's own options, one section a stage, so
that there is one description of every setting and one place where it is checked; what is said on the command
line wins.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from ...backend.errors import SettingsError
from ...backend.files.bounded_reader import read_bytes
from ...backend.files.bounded_yaml import bounded_loader, load_yaml
from ...backend.machine.requirements import require
from ..renamed_settings import RENAMED

FOLDER = Path(__file__).parent
STAGES = ("planner-sft", "critic-sft", "critic-dpo", "planner-dpo", "critic-grpo", "planner-grpo")
MAX_BYTES = 64 * 1024


def recipe_names() -> list[str]:
    """The shipped recipes."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml") if not path.stem.startswith("accelerate"))


def about(name: str) -> list[str]:
    """What a recipe's file says of itself before its first setting: for which machine, and what was not
    run."""
    said: list[str] = []
    for line in _text(_path(name), name).decode("utf-8", "replace").splitlines():
        if not line.startswith("#"):
            break
        said.append(line.lstrip("# "))
    return said


def _path(name: str) -> Path:
    return FOLDER / f"{name}.yaml" if name in recipe_names() else Path(name)


def stages_in(name: str) -> list[str]:
    """The stages that a recipe has settings for: its sections, or all of them if it is one flat list."""
    content = _read(_path(name), name)
    return [stage for stage in STAGES if stage in content] or list(STAGES)


def read_recipe(name: str, stage: str) -> dict[str, Any]:
    """The options of a stage in a shipped recipe (by name) or a file; raises SettingsError.

    A file has one section a stage, or is one flat section. Keys are option names, with "-" or "_"; None
    values are left out.
    """
    content = _read(_path(name), name)
    sections = {key for key in content if key in STAGES}
    if sections and stage not in sections:
        raise SettingsError(
            f"Recipe {name!r} has no section {stage!r}.", f"It has: {', '.join(sorted(sections))}."
        )
    section = content[stage] if sections else content
    if not isinstance(section, dict):
        raise SettingsError(f"Recipe {name!r}, section {stage!r} is not a list of settings.")
    values = {str(key).replace("-", "_"): value for key, value in section.items() if value is not None}
    for key, value in values.items():
        if not isinstance(value, (str, int, float, bool)):
            raise SettingsError(f"Recipe {name!r}, {stage}, {key[:80]}: it is not one value.")
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise SettingsError(f"Recipe {name!r}, {stage}, {key[:80]}: its number is too large.")
    return values


def _text(path: Path, name: str) -> bytes:
    try:
        return read_bytes(path, MAX_BYTES, SettingsError, "Recipe")
    except SettingsError as error:
        hint = f"Give a YAML file, or one of: {', '.join(recipe_names())}."
        raise SettingsError(error.message, hint) from error


def _read(path: Path, name: str) -> dict[str, Any]:
    data = _text(path, name)
    require("yaml")
    import yaml

    content = load_yaml(data, bounded_loader(yaml.SafeLoader), "Recipe", name)
    if not isinstance(content, dict):
        raise SettingsError(f"Recipe {name!r} holds no settings.")
    return content


def unknown_key(recipe: str, stage: str, key: str, known: Collection[str]) -> SettingsError:
    """Return the error of a recipe with a key that is not among the known ones, with its new name."""
    message, new = f"Recipe {recipe!r}: {stage} has no option {key!r}.", RENAMED.get(key)
    if new in known:
        return SettingsError(message, f"It is called {new!r} now.")
    return SettingsError(message, f"See interleave-thinker train {stage} --help.")
