"""Takes the official wording out of the user's own copy of the official repository.

Decision: that wording has no licence that would let us ship it, but the public checkpoints were trained with
it. So it is read from the user's checkout and stored beside the user's checkpoint. The file is parsed, never
run.
"""

from __future__ import annotations

import ast
from pathlib import Path

from ..errors import SettingsError
from ..files.bounded_reader import read_text
from . import FOLDER_NAME, MAX_TEMPLATE, PromptSet

MODULE = Path("UEval") / "system.py"
MAX_MODULE = 300_000
MAX_JOINED = 32_000_000
"""Characters of all strings that a module makes by joining others."""
# Constant of the official module -> (template of ours, slots it must have).
CONSTANTS = {
    "NARRATIVE_PROMPT_JSON": ("planner_text", ("{text_input}",)),
    "GUIDANCE_GLOBAL_PROMPT_JSON": ("planner_images", ("{text_input}",)),
    "Iterative_T2I_PROMPT_QWEN": ("critic", ("{original_instruction}", "{rewritten_prompt}")),
}


def import_official(path: str | Path) -> PromptSet:
    """Read the prompt set of an official checkout (its root folder, or the module file itself); raises
    SettingsError."""
    module = Path(path) / MODULE if Path(path).is_dir() else Path(path)
    constants = _string_constants(_source(module), str(module))
    templates: dict[str, str] = {}
    for name, (template, slots) in CONSTANTS.items():
        if name not in constants:
            raise SettingsError(
                f"{str(module)!r} does not define {name} as a plain string.",
                "Give the folder of a checkout that has it.",
            )
        missing = [slot for slot in slots if slot not in constants[name]]
        if missing:
            raise SettingsError(f"{name} in {str(module)!r} lacks the slot {missing[0]}.")
        if len(constants[name]) > MAX_TEMPLATE:
            raise SettingsError(f"{name} in {str(module)!r} has more than {MAX_TEMPLATE} characters.")
        templates[template] = constants[name]
    return PromptSet(**templates)


def store_beside(prompt_set: PromptSet, checkpoint_folder: str | Path) -> Path:
    """Store a prompt set in a checkpoint folder, where it wins over the pack's own; returns the prompt set's
    folder.

    Raises SettingsError if the checkpoint folder is missing or cannot be written.
    """
    checkpoint = Path(checkpoint_folder)
    if not checkpoint.is_dir():
        raise SettingsError(f"There is no checkpoint folder {str(checkpoint)!r}.")
    folder = checkpoint / FOLDER_NAME
    prompt_set.save(folder)
    return folder


def _source(module: Path) -> str:
    try:
        return read_text(module, MAX_MODULE, SettingsError, "Module")
    except SettingsError as error:
        raise SettingsError(
            error.message, f"Give the folder of an official checkout, which has {MODULE.as_posix()}."
        ) from error


def _string_constants(source: str, where: str) -> dict[str, str]:
    """All names that the module assigns a string to at its top level."""
    try:
        joined = _Joined()
        for node in ast.parse(source).body:
            if isinstance(node, ast.Assign):
                targets = node.targets
            elif isinstance(node, ast.AnnAssign):
                targets = [node.target]
            else:
                continue
            text = joined.string(node.value)
            for name in (target.id for target in targets if isinstance(target, ast.Name)):
                if text is None:
                    joined.known.pop(name, None)
                else:
                    joined.known[name] = text
        return joined.known
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise SettingsError(f"{where!r} is not a Python module that can be read ({error}).") from error


class _Joined:
    """The strings of a module that are known so far. What is joined is counted first: `A = A + A`, thirty
    times, is a gigabyte."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self._characters = 0

    def string(self, node: ast.expr | None) -> str | None:
        """What an expression of constants, known names, `+` and `.strip()`-like calls stands for; None for
        another one, or one longer than MAX_TEMPLATE. Raises ValueError if all of them together are longer
        than MAX_JOINED."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.Name):
            return self.known.get(node.id)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.string(node.left), self.string(node.right)
            if left is None or right is None or not self._fits(len(left) + len(right)):
                return None
            return left + right
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("strip", "lstrip", "rstrip")
            and not node.args
            and not node.keywords
        ):
            text = self.string(node.func.value)
            if text is None or not self._fits(len(text)):
                return None
            return getattr(text, node.func.attr)()
        return None

    def _fits(self, length: int) -> bool:
        if length > MAX_TEMPLATE:
            return False
        self._characters += length
        if self._characters > MAX_JOINED:
            raise ValueError(f"its strings come to more than {MAX_JOINED} characters")
        return True
