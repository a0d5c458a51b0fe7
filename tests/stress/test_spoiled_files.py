"""Training data commands on a stranger's files, one of which is damaged: a result or a one-line error.

Nothing may be written outside the named folders. Each case damages one file of an otherwise valid folder: its
bytes, or one value deep inside it. Every command that reads the file is run. Some changes are harmless, and
then the command succeeds.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from support import hostile_prompts, hostile_rows

from interleave_thinker.backend.core.errors import InterleaveError
from interleave_thinker.backend.core.shown_text import shown_text

pytest.importorskip("datasets")
pytest.importorskip("datasketch")
pytest.importorskip("yaml")

from interleave_thinker.research.data.decontamination.benchmark_index import BenchmarkIndex, IndexedItem
from interleave_thinker.research.data.decontamination.guard import add_benchmark, check_file

pytestmark = [pytest.mark.stress, pytest.mark.timeout(1800)]

CASES, PARTS = 1_000, 20
"""Cases of each kind of folder, and the number of tests that they are spread over."""
MAX_LINE = 1_500


def spoiled_prompts(content: bytes, name: str, random: Random) -> bytes:
    return hostile_prompts.mutated(content, random)


def prepare_prompts(folder: Path) -> None:
    hostile_prompts.prepare(folder)
    with BenchmarkIndex.create(folder / "guard.sqlite") as guard:
        guard.add(
            "own", [IndexedItem(("Show how a mill grinds flour between two stones.",), ("Mill",))], "one"
        )


def commands_of_prompts(folder: Path, file: str) -> list[Callable[[], object]]:
    """Return the command of `data guard` that reads the file."""

    def add_and_check() -> None:
        with BenchmarkIndex.create(folder / "new.sqlite") as guard:
            add_benchmark(guard, "file", folder / file)
            check_file(guard, folder / file)

    def check() -> None:
        with BenchmarkIndex.open(folder / file) as guard:
            check_file(guard, folder / "rows.jsonl")

    if file.startswith("rows"):
        return [add_and_check]
    return [check]


def names_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", ["rows", "prompts"])
def test_a_spoiled_file_gives_a_result_or_one_line(kind: str, part: int, tmp_path: Path) -> None:
    if kind == "rows":
        prepare, commands_of, spoiled = hostile_rows.prepare, hostile_rows.commands_of, hostile_rows.spoiled
        outputs = set(hostile_rows.OUTPUTS)
    else:
        prepare, commands_of, spoiled = prepare_prompts, commands_of_prompts, spoiled_prompts
        outputs = {"out", "new.sqlite"}
    template = tmp_path / "template"
    prepare(template)
    files = hostile_rows.files_of(template) if kind == "rows" else list(hostile_prompts.FILES)
    random, ends, faults = Random(part), Counter[str](), list[str]()
    for case in range(CASES // PARTS):
        file = files[(part * CASES // PARTS + case) % len(files)]
        parent = tmp_path / "case"
        folder = parent / "folder"
        shutil.copytree(template, folder, symlinks=True)
        path = folder / file
        path.write_bytes(spoiled(path.read_bytes(), path.name, random))
        there = names_below(parent)
        for number, command in enumerate(commands_of(folder, file)):
            try:
                command()
                ends["result"] += 1
            except InterleaveError as error:
                ends["error"] += 1
                said = shown_text(str(error))
                if not said.isprintable() or len(said) > MAX_LINE:
                    faults.append(f"{file}, command {number}: {said[:300]!r}")
            except Exception as error:  # noqa: BLE001 - that is what is looked for
                faults.append(f"{file}, command {number}: {type(error).__name__}: {str(error)[:300]}")
            new = {name for name in names_below(parent) - there if name.split("/")[1] not in outputs}
            if new:
                faults.append(f"{file}, command {number} wrote {sorted(new)[:3]}")
            for name in outputs:
                written = folder / name
                shutil.rmtree(written) if written.is_dir() else written.unlink(missing_ok=True)
        shutil.rmtree(parent)
    print(dict(ends))
    assert not faults
    assert ends["error"] and ends["result"]
