"""What small files cost whose JSON is huge in memory: the most that a process ever took that reads them.

    OMP_NUM_THREADS=1 python benchmarks/json_bombs.py            # --few: two kinds of them instead of seven

Decision: one process reads all of them, since it is the most that it ever took that counts. It fails past
MAX_MEGABYTES, or if one of them is read instead of refused. Every file has 6 MB, texts that are pasted into
a node the most that these take.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)

import tests.conftest  # noqa: E402, F401 - makes the checkout importable as interleave_thinker
from interleave_thinker.backend.errors import InterleaveError  # noqa: E402
from interleave_thinker.backend.execution_record.reader import read_record  # noqa: E402
from interleave_thinker.backend.execution_record.trajectory import record_trajectory  # noqa: E402
from interleave_thinker.backend.feedback.log import read_feedback  # noqa: E402
from interleave_thinker.backend.feedback.rows import add_feedback_rows  # noqa: E402
from interleave_thinker.backend.journal.journal import Journal  # noqa: E402
from interleave_thinker.backend.journal.picks import read_choices  # noqa: E402
from interleave_thinker.backend.loop.replay import load_trajectory  # noqa: E402
from interleave_thinker.backend.plan_editor.merge import read_edits  # noqa: E402
from interleave_thinker.backend.prompts.importer import import_official  # noqa: E402
from interleave_thinker.backend.types import Identities, Plan, Request, RunSettings, Step, Trajectory  # noqa: E402
from interleave_thinker.cli.run_request import read_plan_file  # noqa: E402
from interleave_thinker.training.data.rows.rl import read_rl_rows  # noqa: E402
from interleave_thinker.training.data.rows.sft import check_rows  # noqa: E402

MAX_MEGABYTES = 500
SIZE = 6_000_000
PASTED = 990_000
FEW = ("{}", '{"step":1}')
ALL = (*FEW, "[]", "0", '""', '{"a":{}}', '{"number":1,"prompt":"p"}')
PLAN = Plan(steps=(Step(number=1, prompt="p"),))


class Case(NamedTuple):
    """A file, its content and what reads it."""

    name: str
    path: Path
    text: str
    read: Callable[[Path], object]


def many(item: str, room: int = SIZE) -> str:
    """The item again and again."""
    return ",".join([item] * (room // (len(item) + 1)))


def cases(folder: Path, items: tuple[str, ...]) -> Iterator[Case]:
    """One after another, so that only one of the texts is in memory."""
    run = folder / "run"
    Journal(run).begin(Request(text="x"), RunSettings(), Identities())
    for item in items:
        inside = many(item)
        for name, text in lists(inside):
            yield Case(f"record, {name} of {item}", folder / "execution_record.json", text, story_of_record)
        yield Case(f"plan of {item}", folder / "plan.json", f'{{"steps":[{inside}]}}', read_plan_file)
        for name, text in trajectories(inside):
            yield Case(f"trajectory, {name} of {item}", run / "trajectory.json", text, story_of_run)
        for name, text in (("rows", f"[{inside}]"), ("messages", f'[{{"messages":[{inside}]}}]')):
            yield Case(f"data, {name} of {item}", folder / "critic_sft.json", text, check_rows)
            yield Case(f"own data, {name} of {item}", folder / "own" / "critic_sft.json", text, add_own_rows)
        yield Case(f"row of {item}", folder / "critic_rl.jsonl", f'{{"raw_scores":[{inside}]}}', read_rl_rows)
        yield Case(f"words of {item}", run / "feedback.jsonl", f'{{"step":[{inside}]}}', words_of_run)
        yield Case(f"edits of {item}", folder / "edits", f"[{many(item, PASTED)}]", pasted)
    keys = ",".join(f'"k{number}":0' for number in range(SIZE // 11))
    for path, read in (
        (folder / "execution_record.json", read_record),
        (folder / "plan.json", read_plan_file),
        (run / "choices.json", lambda path: read_choices(path.parent)),
        (run / "trajectory.json", story_of_run),
    ):
        yield Case(f"keys of {path.name}", path, f'{{"steps":[],{keys}}}', read)
    doubled = "A = 'xxxxxxxx'\n" + "A = A + A\n" * 60 + "NARRATIVE_PROMPT_JSON = A\n"
    yield Case("a module that doubles a string", folder / "system.py", doubled, import_official)
    names = "A = '" + "x" * 90_000 + "'\n" + "".join(f"A{n} = A + A\n" for n in range(9_000))
    yield Case("a module of long strings", folder / "system.py", names, import_official)
    for item in ("a\n", "{}\n", "x=[];"):
        text = item * (299_000 // len(item))
        yield Case(f"a module of {item!r}", folder / "system.py", text, import_official)


def lists(inside: str) -> Iterator[tuple[str, str]]:
    yield "list", f"[{inside}]"
    yield "steps", f'{{"steps":[{inside}]}}'
    yield "plan", f'{{"global_context":{{"execution_plan":[{inside}]}},"steps":[]}}'


def trajectories(inside: str) -> Iterator[tuple[str, str]]:
    whole = Trajectory(request=Request(text="x"), plan=PLAN).model_dump(mode="json")
    step = json.dumps(whole["plan"]["steps"][0])
    for name, field, text in (
        ("results", "results", f"[{inside}]"),
        ("attempts", "results", f'[{{"step":{step},"stop_reason":"error","attempts":[{inside}]}}]'),
        ("images", "request", f'{{"text":"x","images":[{inside}]}}'),
    ):
        others = json.dumps({key: value for key, value in whole.items() if key != field})
        yield name, f'{others[:-1]},"{field}":{text}}}'


def story_of_record(path: Path) -> object:
    return record_trajectory(read_record(path))


def story_of_run(path: Path) -> object:
    return load_trajectory(path.parent)


def words_of_run(path: Path) -> object:
    return read_feedback(path.parent)


def pasted(path: Path) -> object:
    return read_edits(path.read_text())


def add_own_rows(path: Path) -> object:
    return add_feedback_rows(path.parent, Trajectory(request=Request(text="x"), plan=PLAN), [])


def main() -> int:
    """Read all cases; 1 if one is not refused or too much memory was taken."""
    worst, failed, number = "", 0, 0
    most = before = megabytes()
    print(f"{before} MB before the first file")
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(Path(folder), FEW if "--few" in sys.argv else ALL):
            number += 1
            case.path.parent.mkdir(parents=True, exist_ok=True)
            case.path.write_text(case.text)
            began = time.monotonic()
            try:
                case.read(case.path)
                said, failed = "READ", failed + 1
            except InterleaveError as error:
                said = str(error)
            seconds = time.monotonic() - began
            case.path.unlink()
            if megabytes() > most:
                most, worst = megabytes(), case.name
            print(f"{megabytes()} MB, {seconds:.1f} s, {case.name}: {said[:140]}", flush=True)
    print(f"{number} files, {failed} read; at most {most} MB (limit {MAX_MEGABYTES}), at {worst!r}")
    return int(failed > 0 or most > MAX_MEGABYTES)


def megabytes() -> int:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    sys.exit(main())
