"""Imports the official prompt set from the user's own checkout of the official repository.

The license of these prompts does not allow shipping them, but the public checkpoints were trained with them.
So they are read from the user's checkout and stored next to the user's checkpoint. The file is parsed, never
executed. `main` is the import command of a node pack without the command line, which needs only argparse.
"""

from __future__ import annotations

import ast
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from ..errors import SettingsError
from ..files.bounded_reader import read_text
from .agent_card import AgentCard, Role
from .prompt_set import FOLDER_NAME, MAX_TEMPLATE, PromptSet
from .trained_with import trained_with

ONLY = (
    "This copy of the pack has only the command `prompts import`. For all others, clone the repository and "
    "install it with pip."
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `prompts import CHECKOUT --to FOLDER`.

    Raises:
        SystemExit: With code 2 after an error, which is printed as one line.
    """
    parser = ArgumentParser(prog="interleave-thinker", epilog=ONLY)
    groups = parser.add_subparsers(required=True, metavar="prompts")
    commands = groups.add_parser("prompts", epilog=ONLY).add_subparsers(required=True, metavar="import")
    command = commands.add_parser("import", help="Import the official prompts for a published checkpoint.")
    command.add_argument("path", type=Path, metavar="CHECKOUT", help="Your clone of the official repository.")
    command.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="Folder of the checkpoint.")
    command.add_argument("--role", choices=get_args(Role), help="Job that it was trained for.")
    given = parser.parse_args(arguments)
    try:
        print(import_beside(given.path, given.to, given.role))
    except SettingsError as error:
        sys.exit(_failed(error))


def _failed(error: SettingsError) -> int:
    print(f"Error: {error}", file=sys.stderr)
    return 2


MODULE = Path("UEval") / "system.py"
MAX_MODULE = 300_000
MAX_JOINED = 32_000_000
"""Maximum total length, in characters, of all strings that a module concatenates."""
# Constant of the official module -> (template of this package, slots that it must have).
CONSTANTS = {
    "NARRATIVE_PROMPT_JSON": ("planner_text", ("{text_input}",)),
    "GUIDANCE_GLOBAL_PROMPT_JSON": ("planner_images", ("{text_input}",)),
    "Iterative_T2I_PROMPT_QWEN": ("critic", ("{original_instruction}", "{rewritten_prompt}")),
}


def import_official(path: str | Path) -> PromptSet:
    """Read the prompt set of an official checkout.

    Args:
        path: Root folder of the checkout, or the module file itself.

    Raises:
        SettingsError: The module is missing or does not contain the templates.
    """
    module = Path(path) / MODULE if Path(path).is_dir() else Path(path)
    constants = string_constants(_source(module), str(module))
    templates: dict[str, str] = {}
    for name, (template, slots) in CONSTANTS.items():
        if name not in constants:
            raise SettingsError(
                f"{str(module)!r} does not define {name} as a plain string.",
                "Give the folder of a checkout that defines it.",
            )
        missing = [slot for slot in slots if slot not in constants[name]]
        if missing:
            raise SettingsError(
                f"{name} in {str(module)!r} does not have the slot {missing[0]}.", "Use another checkout."
            )
        if len(constants[name]) > MAX_TEMPLATE:
            raise SettingsError(
                f"{name} in {str(module)!r} is longer than {MAX_TEMPLATE} characters.",
                "Use another checkout.",
            )
        templates[template] = constants[name]
    return PromptSet(**templates)


def store_beside(prompt_set: PromptSet, checkpoint_folder: str | Path, role: Role | None = None) -> Path:
    """Store a prompt set in a checkpoint folder, where it replaces the pack's, and name it in the agent card.

    Args:
        prompt_set: The prompt set.
        checkpoint_folder: Folder of the checkpoint.
        role: Job of the agent. Default: as in its card, or that of the published checkpoint that it is.

    Returns:
        The folder of the prompt set.

    Raises:
        SettingsError: The checkpoint folder does not exist or cannot be written, or its card is damaged.
    """
    checkpoint = Path(checkpoint_folder)
    if not checkpoint.is_dir():
        raise SettingsError(
            f"The checkpoint folder {str(checkpoint)!r} does not exist.", "Give an existing folder."
        )
    known = trained_with(checkpoint)
    published = known.published
    card = AgentCard(
        role=role or known.card.role or (published.role if published else None),
        prompt_set=prompt_set.digest,
        image_pixels=known.image_pixels or (published.image_pixels if published else None),
        gate=known.card.gate,
    )
    folder = checkpoint / FOLDER_NAME
    prompt_set.save(folder)
    card.save(checkpoint)
    return folder


def import_beside(path: str | Path, checkpoint_folder: str | Path, role: Role | None = None) -> str:
    """Import the prompt set of an official checkout into a checkpoint folder, and return a line for the user.

    Raises:
        SettingsError: As `import_official` and `store_beside`.
    """
    prompt_set = import_official(path)
    store_beside(prompt_set, checkpoint_folder, role)
    stored = trained_with(checkpoint_folder).card.role
    job = f", for a {stored}" if stored else ""
    return f"Stored prompt set {prompt_set.digest} in {checkpoint_folder}{job}."


def _source(module: Path) -> str:
    try:
        return read_text(module, MAX_MODULE, SettingsError, "Module")
    except SettingsError as error:
        raise SettingsError(
            error.message, f"Give the folder of an official checkout; it contains {MODULE.as_posix()}."
        ) from error


def string_constants(source: str, where: str) -> dict[str, str]:
    """Return all names to which the module assigns a string at its top level, with their values."""
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
        raise SettingsError(
            f"{where!r} cannot be parsed as a Python module ({error}).", "Give an official checkout."
        ) from error


class _Joined:
    """The strings of a module that are known so far.

    Lengths are checked before strings are concatenated: `A = A + A`, thirty times, is a gigabyte.
    """

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self._characters = 0

    def string(self, node: ast.expr | None) -> str | None:
        """Return the value of an expression of constants, known names, `+` and calls like `.strip()`.

        `None` for any other expression, or for a result longer than `MAX_TEMPLATE`.

        Raises:
            ValueError: All results together are longer than `MAX_JOINED`.
        """
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
            raise ValueError(f"its strings are longer than {MAX_JOINED} characters in total")
        return True
