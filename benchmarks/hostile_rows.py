"""What `data filter`, `planner-rows`, `sequences`, `pack` and `inspect` make of a stranger's runs, records,
rows and sets like CoMM: a result or one line of error, soon, and nothing outside the folder.

Decision: every case spoils one file of a folder that is right otherwise (tests/support/hostile_rows.py): its
bytes, or one value deep inside it; and every command that reads the file is carried out. Pickles that call
something are among the tests of `training/data/pickled.py`.

    python benchmarks/hostile_rows.py --cases 1000        # the last line is JSON
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import conftest  # noqa: F401 - makes the package importable
from support.hostile_cases import conclude, names_below
from support.hostile_rows import OUTPUTS, commands_of, files_of, prepare, spoiled

from interleave_thinker.backend.errors import InterleaveError
from interleave_thinker.backend.shown_text import shown_text

MAX_SECONDS = 30


def remove(folder: Path) -> None:
    """Take away what a command wrote."""
    for name in OUTPUTS:
        shutil.rmtree(folder / name, ignore_errors=True)
        if (folder / name).is_file():
            (folder / name).unlink()


class TooLong(Exception):
    """A command took longer than MAX_SECONDS."""


def main() -> None:
    """Run, print, and end with 1 if a command was neither a result nor one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()

    def late(*_: object) -> None:
        raise TooLong

    signal.signal(signal.SIGALRM, late)
    random, ends, faults, slowest = Random(given.seed), Counter[str](), Counter[str](), 0.0
    with tempfile.TemporaryDirectory() as kept:
        template = Path(kept, "template")
        prepare(template)
        files = files_of(template)
        for case in range(given.cases):
            parent, file = Path(kept, "case"), files[case % len(files)]
            folder = parent / "folder"
            shutil.copytree(template, folder, symlinks=True)
            path = folder / file
            path.write_bytes(spoiled(path.read_bytes(), path.name, random))
            there = names_below(parent)
            for number, command in enumerate(commands_of(folder, file)):
                begun = time.monotonic()
                signal.alarm(MAX_SECONDS)
                try:
                    command()
                    ends["result"] += 1
                except InterleaveError as error:
                    ends["error"] += 1
                    said = shown_text(str(error))
                    if "\n" in said or len(said) > 1_500:
                        faults["not one line"] += 1
                        print(f"{file} {number}: {said[:300]!r}")
                except Exception as error:  # noqa: BLE001 - counted as a fault of the case
                    faults[type(error).__name__] += 1
                    where = traceback.extract_tb(error.__traceback__)[-1]
                    print(f"{file} {number}: {type(error).__name__}: {str(error)[:200]} ({where})")
                signal.alarm(0)
                slowest = max(slowest, time.monotonic() - begun)
                remove(folder)
                new = names_below(parent) - there
                if new:
                    faults["written elsewhere"] += 1
                    print(f"{file} {number}: {sorted(new)[:3]}")
                    there |= new
            shutil.rmtree(parent)
    commands = sum(ends.values()) + sum(faults.values())
    conclude(ends, faults, slowest, cases=given.cases, files=len(files), commands=commands)


if __name__ == "__main__":
    main()
