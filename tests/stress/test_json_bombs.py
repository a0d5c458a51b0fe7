"""JSON files of 6 MB that are huge in memory: each is rejected, and reading all of them takes at most 500 MB.

One forked child reads the files, because the peak memory of the process counts. Texts pasted into a node have
the maximum size that a node accepts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from support.forked import forked

from interleave_thinker import InterleaveError, load_trajectory
from interleave_thinker.backend.core.prompts.importer import import_official
from interleave_thinker.backend.core.types import Identities, Plan, Request, RunSettings, Step, Trajectory
from interleave_thinker.backend.output.feedback_log import read_feedback
from interleave_thinker.backend.output.sft_rows import add_feedback_rows
from interleave_thinker.backend.pipeline.plan_file import read_plan_file
from interleave_thinker.backend.story.execution_record.reader import read_record
from interleave_thinker.backend.story.execution_record.trajectory import record_trajectory
from interleave_thinker.backend.story.journal.choices import read_choices
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.plan_editor.merge import read_edits
from interleave_thinker.training.rows.rl import read_rl_rows
from interleave_thinker.training.rows.sft import check_rows

pytestmark = [
    pytest.mark.stress,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(os.name != "posix", reason="fork is POSIX"),
]

MAX_BYTES = 500 * 1000 * 1000
SIZE, PASTED = 6_000_000, 990_000
"""Bytes of a file, and of a pasted text."""
ITEMS = ("{}", '{"step":1}', "[]", "0", '""', '{"a":{}}', '{"number":1,"prompt":"p"}')
PLAN = Plan(steps=(Step(number=1, prompt="p"),))


class Case(NamedTuple):
    """A file, its content and its reader."""

    name: str
    path: Path
    text: str
    read: Callable[[Path], object]


def many(item: str, room: int = SIZE) -> str:
    """Return the item repeated until it fills the room."""
    return ",".join([item] * (room // (len(item) + 1)))


def cases(folder: Path, items: tuple[str, ...]) -> Iterator[Case]:
    """Yield one case after another, so that only one text is in memory."""
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


@pytest.mark.parametrize("item", ITEMS)
def test_every_file_is_rejected(item: str, tmp_path: Path) -> None:
    read = tmp_path / "read.txt"

    def carry_out() -> None:
        number = 0
        with read.open("w") as failures:
            for case in cases(tmp_path, (item,)):
                number += 1
                case.path.parent.mkdir(parents=True, exist_ok=True)
                case.path.write_text(case.text)
                try:
                    case.read(case.path)
                    failures.write(f"{case.name}\n")
                except InterleaveError:
                    pass
                case.path.unlink()
        assert number > 20

    ended = forked(carry_out, 1800.0)
    assert ended.code == 0
    assert not read.read_text()
    assert ended.peak_bytes < MAX_BYTES
