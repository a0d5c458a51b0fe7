"""`prompts import` without the command line, which the archive of the Comfy Registry does not contain.

It needs only Python's own argparse. The complete command is in cli/commands/prompts.py.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from ..errors import SettingsError
from .agent_card import Role
from .importer import import_beside

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
