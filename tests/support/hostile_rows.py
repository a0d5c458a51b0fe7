"""Runs, records, rows and external sets with a fault in one file, for every stage that reads them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import torch

from interleave_thinker import Attempt, Picture, Plan, Step
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.core.types import Request, Score, StepResult, StopReason, Trajectory, Verdict
from interleave_thinker.backend.output.exporters.record import export
from interleave_thinker.backend.story.journal.copy import save_trajectory
from interleave_thinker.research.data.planner_rows import (
    PlannerReport,
    PlannerRowsData,
    make_planner_rows,
)
from interleave_thinker.research.data.sequences import make_sequences
from interleave_thinker.training.from_runs.convert import RunConverter
from interleave_thinker.training.from_runs.settings import FilterData
from interleave_thinker.training.rows.rl import read_rl_rows
from interleave_thinker.training.rows.sft import check_rows

from .made_runs import grey_page, made_run, say

VALUES: tuple[Any, ...] = (
    None, True, -1, 10**30, 1e308, "", "\x00", "\ud800", "<image>", "</plan><critic>", "../../../etc/passwd",
    "/etc/passwd", "C:\\secret.png", "images/" + "a" * 300 + ".png", "\x1b[2Jx\ny", "w" * 200_000, [], {},
    [[]] * 2_000, {"a": {"b": {"c": []}}}, [None, 1, "x"],
)  # fmt: skip
NASTY = (
    b"\x00", b"\xff\xfe", b"!!python/object/apply:os.system ['touch pwned']", b"&a [*a, *a]", b"*a", b"{",
    b"}", b"[" * 2000, b"{" * 2000, b"../../outside", b"/etc/passwd", b"\xe2\x80\xae", b"\x1b]0;title\x07",
    b": : :", b"- - -", b"? [complex, key]\n: 1", b"{a missing_bank}", b"{animal +no_such_tag}",
    b"{animal?plural:are}", b"[one|[two|three]]", b"9" * 400, b"1e999", b"null", b"\n\t",
    "é́\U0001f600".encode(), b"A" * 70_000, b"<<: *x", b"%YAML 9.9", b"--- \n--- \n", b'"' * 9,
)  # fmt: skip
NAMES = ("planner_sft.json", "critic_sft.json", "critic_rl.jsonl")
COMM = [
    {
        "data_id": f"i{number}",
        "dataset_type": "instructables",
        "title": "A hat",
        "summary_info": [],
        "step_info": [
            [
                {"type": "text", "content": f"Fold {n}."},
                {"type": "image", "url": "u", "image_path": f"{n}.png"},
            ]
            for n in range(2)
        ],
    }
    for number in range(3)
]
OUTPUTS = ("out", "out.scores.sqlite")


def quiet(line: str) -> None:
    """Log nothing."""


def story(accepted: bool = True) -> Trajectory:
    """Return a story of two steps, the first with two attempts."""
    steps, results = [], []
    for number in (1, 2):
        step = Step(number=number, name="s", prompt=f"page {number}", auxiliary_text=f"Words {number}.")
        attempts = [
            Attempt(
                prompt=f"page {number}" if said else f"dark page {number}",
                seed=place,
                image=grey_page(60 * number + place),
                verdict=Verdict(success=said, refined_prompt=f"page {number}", reasoning="seen"),
                score=Score(semantics=4 + place, quality=5),
            )
            for place, said in enumerate([False, accepted])
        ]
        reason = StopReason.accepted if accepted else StopReason.attempts_used_up
        steps.append(step)
        results.append(StepResult(step=step, attempts=tuple(attempts), chosen=1, stop_reason=reason))
    request = Request(text="Tell of two pages.", images=(grey_page(9),))
    plan = Plan(steps=tuple(steps), reasoning="first, then")
    return Trajectory(request=request, plan=plan, results=tuple(results))


def prepare(folder: Path) -> None:
    """Create a folder in which every file is valid: runs, published records, rows, a set like CoMM."""
    save_trajectory(story(), folder / "runs" / "a")
    (folder / "runs" / "a" / "sample.json").write_text(json.dumps({"id": "a", "split": "train"}))
    made_run(folder / "runs" / "b", [(20, False, 4.0), (90, True, 6.0)])
    say(folder / "runs" / "b", 0, accepted=False, note="too dark")
    export(story(), folder / "published" / "c")
    made_run(folder / "published" / "d", [(20, False, 4.0), (90, True, 6.0)])
    RunConverter(
        FilterData(balance=0.0, rl_share=0.5, held_out_runs=0.0), default_prompt_set(), log=quiet
    ).convert([folder / "runs"], folder / "rows")
    planner([folder / "runs"], folder / "planner")
    (folder / "planner" / "report.json").unlink()
    for path in (folder / "planner" / "images").iterdir():
        (folder / "rows" / "images" / path.name).write_bytes(path.read_bytes())
    (folder / "rows" / "planner_sft.json").write_bytes((folder / "planner" / "planner_sft.json").read_bytes())
    (folder / "comm" / "images").mkdir(parents=True)
    for number in range(2):
        Picture(grey_page(number).image).image.save(folder / "comm" / "images" / f"{number}.png")
    torch.save(COMM, folder / "comm" / "train_data.pth")
    (folder / "comm_json").mkdir()
    (folder / "comm_json" / "images").symlink_to(folder / "comm" / "images", target_is_directory=True)
    (folder / "comm_json" / "train.json").write_text(json.dumps(COMM))


def files_of(folder: Path) -> list[str]:
    """Return the paths of the files to mutate."""
    found = [path for path in folder.rglob("*") if path.is_file() and "comm_json/images" not in str(path)]
    return sorted(path.relative_to(folder).as_posix() for path in found)


def spoiled(content: bytes, name: str, random: Random) -> bytes:
    """Return the content with damaged bytes, or with one value exchanged."""
    if name.endswith((".json", ".jsonl", ".pth")) and random.random() < 0.7:
        if name.endswith(".pth"):
            content = io.BytesIO()
            torch.save(_exchanged(COMM, random), content)
            return content.getvalue()
        lines = content.splitlines() if name.endswith(".jsonl") else [content]
        at = random.randrange(len(lines))
        lines[at] = json.dumps(_exchanged(json.loads(lines[at]), random)).encode()
        return b"\n".join(lines) + b"\n"
    return mutated(content, random)


def _exchanged(value: Any, random: Random) -> Any:
    """Return the value with one part exchanged, removed or repeated."""
    if isinstance(value, (dict, list)) and value and random.random() < 0.85:
        keys: Sequence[Any] = list(value) if isinstance(value, dict) else range(len(value))
        key = random.choice(keys)
        copy: Any = dict(value) if isinstance(value, dict) else list(value)
        way = random.random()
        if way < 0.08:
            del copy[key]
        elif way < 0.12 and isinstance(copy, list):
            copy *= 200
        else:
            copy[key] = _exchanged(value[key], random)
        return copy
    return random.choice(VALUES)


def commands_of(folder: Path, file: str) -> list[Callable[[], object]]:
    """Return the commands that read the file, each with new output folders."""
    top = file.split("/")[0]
    out, prompt_set = folder / "out", default_prompt_set()
    if top.startswith("comm"):
        return [lambda: planner([], out, folder / top)]
    if top in ("rows", "planner"):
        data = folder / top
        return [
            lambda: read_rl_rows(data / "critic_rl.jsonl"),
            *(lambda path=path: check_rows(path, False) for path in sorted(data.glob("*_sft.json"))),
        ]
    runs = [folder / top]
    settings = FilterData(balance=0.0, rl_share=0.5, held_out_runs=0.0)
    return [
        lambda: RunConverter(settings, prompt_set, skip_bad=True, log=quiet).convert(runs, out),
        lambda: RunConverter(settings, prompt_set, log=quiet).convert(runs, out),
        lambda: planner(runs, out),
        lambda: make_sequences(runs, out, log=quiet),
    ]


def planner(runs: list[Path], out: Path, comm: Path | None = None) -> PlannerReport:
    """Make planner rows."""
    return make_planner_rows(runs, out, default_prompt_set(), PlannerRowsData(), comm, quiet)


def mutated(content: bytes, random: Random) -> bytes:
    """Return the content with one to three faults."""
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(content) + 1)
        ways: tuple[Callable[[], bytes], ...] = (
            lambda at=at, content=content: content[:at] + random.choice(NASTY) + content[at:],
            lambda at=at, content=content: content[:at],
            lambda at=at, content=content: content[:at] + content[at + random.randint(1, 30) :],
            lambda at=at, content=content: content[:at] + bytes([random.randrange(256)]) + content[at + 1 :],
            lambda at=at, content=content: content[:at] + content[: random.randint(1, 200)] + content[at:],
        )
        content = random.choice(ways)()
    return content
