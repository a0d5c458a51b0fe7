"""What `data prompts` and `data guard` make of a stranger's taxonomies, banks, rows and indices: a result or
one line of error, soon, and nothing outside the folder.

Decision: every case mutates one file of a folder that is right otherwise (tests/support/hostile_prompts.py),
so that what is reached lies deep; some mutations do no harm, and then the command ends well.

    python benchmarks/hostile_prompts.py --cases 1000        # the last line is JSON
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import conftest  # noqa: F401 - makes the package importable
from support.hostile_cases import conclude, names_below
from support.hostile_prompts import FILES, mutated, prepare

from interleave_thinker.backend.errors import InterleaveError
from interleave_thinker.training.data.decontamination.benchmarks import ItemsRead, items_of
from interleave_thinker.training.data.decontamination.checking import check_file
from interleave_thinker.training.data.decontamination.index import BenchmarkIndex
from interleave_thinker.training.data.decontamination.items import IndexedItem
from interleave_thinker.training.data.prompts.generate import PromptsData, write_prompts

MAX_SECONDS = 10


def carry_out(folder: Path, file: str) -> None:
    """The command that reads the file."""
    if file.startswith("rows"):
        with BenchmarkIndex.create(folder / "new.sqlite") as guard:
            guard.add("file", items_of("file", folder / file, ItemsRead()), "a")
            check_file(guard, folder / file)
    elif file == "guard.sqlite":
        with BenchmarkIndex.open(folder / file) as guard:
            check_file(guard, folder / "rows.jsonl")
    else:
        settings = PromptsData(count=30, taxonomy=folder / "taxonomy.yaml", words=folder / "banks")
        write_prompts(settings, {}, folder / "out")


def main() -> None:
    """Run, print, and end with 1 if a case was neither a result nor one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    random, ends, faults, slowest = Random(given.seed), Counter[str](), Counter[str](), 0.0
    with tempfile.TemporaryDirectory() as kept:
        template = Path(kept, "template")
        prepare(template)
        with BenchmarkIndex.create(template / "guard.sqlite") as guard:
            guard.add(
                "own", [IndexedItem(("Show how a mill grinds flour between two stones.",), ("Mill",))], "one"
            )
        for case in range(given.cases):
            parent, file = Path(kept, "case"), FILES[case % len(FILES)]
            folder = parent / "folder"
            shutil.copytree(template, folder)
            path = folder / file
            path.write_bytes(mutated(path.read_bytes(), random))
            begun = time.monotonic()
            signal.alarm(MAX_SECONDS)
            try:
                carry_out(folder, file)
                ends["result"] += 1
            except InterleaveError as error:
                ends["error"] += 1
                said = str(error)
                if "\n" in said or len(said) > 1_000 or any(ord(one) < 32 for one in said):
                    faults["not one line"] += 1
                    print(f"{file}: {said!r}")
            except Exception as error:  # noqa: BLE001 - counted as a fault of the case
                faults[type(error).__name__] += 1
                print(f"{file}: {type(error).__name__}: {error}")
            signal.alarm(0)
            slowest = max(slowest, time.monotonic() - begun)
            outside = names_below(parent) - {"folder"} - {f"folder/{name}" for name in names_below(folder)}
            wanted = {"out", "out/prompts.jsonl", "out/prompts.report.json", "new.sqlite"}
            new = names_below(folder) - names_below(template) - wanted
            if outside or new:
                faults["written elsewhere"] += 1
                print(f"{file}: {outside or new}")
            shutil.rmtree(parent)
    conclude(ends, faults, slowest, cases=given.cases)


if __name__ == "__main__":
    main()
