"""Rows created in parallel are the same with every executor and in any order of completion.

Errors of reading and writing in a worker are reported.
"""

from __future__ import annotations

import json
import os
import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.made_runs import accepted_story, grey_page, made_run
from support.ray_here import ray_here

from interleave_thinker.backend.errors import ChatError, SettingsError
from interleave_thinker.backend.journal.copy import save_trajectory
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.prompts import default_prompt_set
from interleave_thinker.backend.scorers import Scorer
from interleave_thinker.backend.types import Score
from interleave_thinker.training.data.executors import CancelToken, Executor, ItemResult, LocalCancelToken
from interleave_thinker.training.data.executors.ordered import in_order
from interleave_thinker.training.data.executors.ray_actors import RayExecutor
from interleave_thinker.training.data.executors.threads import ThreadExecutor
from interleave_thinker.training.data.from_runs.convert import RunConverter
from interleave_thinker.training.data.from_runs.scoring import GIVE_UP, ImageToScore
from interleave_thinker.training.data.from_runs.settings import FilterData
from interleave_thinker.training.data.planner_rows.make import PlannerRows
from interleave_thinker.training.data.planner_rows.settings import PlannerRowsData
from interleave_thinker.training.data.rows.row_folder import check_shared
from interleave_thinker.training.data.sequences.make import make_sequences

ASKED = "INTERLEAVE_TEST_RAY"


@dataclass(frozen=True)
class ByShade:
    """Scores images by their brightness; later ones finish first. With `down` it never answers."""

    down: bool = False
    identity: str = "by shade"

    def __call__(self) -> Scorer:
        return self

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        if self.down:
            raise ChatError("No server answers.")
        light = after.image.getpixel((0, 0))[0] / 25.5  # type: ignore[index]
        time.sleep((10 - light) / 1000)
        return Score(semantics=light, quality=light)


class Travelled:
    """Threads that pickle everything that would be sent to another process and back."""

    def map(
        self, job: Any, items: Iterable[Any], key: Callable[[Any], str], stop: LocalCancelToken
    ) -> Iterator[ItemResult[Any]]:
        packed = [(key(item), pickle.dumps(item)) for item in items]
        for done in ThreadExecutor(3).map(Unpacking(pickle.dumps(job)), packed, lambda pair: pair[0], stop):
            yield ItemResult(done.key, pickle.loads(done.result))  # noqa: S301 - made here


@dataclass(frozen=True)
class Unpacking:
    """What a worker does with a received job."""

    job: bytes

    def open(self, stop: CancelToken) -> Callable[[tuple[str, bytes]], bytes]:
        function = pickle.loads(self.job).open(stop)  # noqa: S301 - made here
        return lambda pair: pickle.dumps(function(pickle.loads(pair[1])))  # noqa: S301 - made here


@pytest.fixture(params=["threads", "pickled", "ray"])
def side_by_side(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Executor]:
    if request.param == "threads":
        yield ThreadExecutor(4)
        return
    if request.param == "pickled":
        yield Travelled()
        return
    pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    if not os.environ.get(ASKED):
        pytest.skip(f"starts a Ray cluster, half a minute of two busy cores: set {ASKED}=1")
    (tmp_path / "package").mkdir()
    with ray_here(tmp_path / "package"):
        yield RayExecutor(actors=2, parallel=2)


def carry_out(runs: Path, out: Path, executor: Executor, scorer: ByShade) -> None:
    quiet = {"log": lambda line: None}
    RunConverter(
        FilterData(),
        default_prompt_set(),
        scorer,
        skip_bad=True,
        executor=executor,
        open_scorer=scorer,
        **quiet,
    ).convert([runs], out / "filter")  # type: ignore[arg-type]
    PlannerRows(PlannerRowsData(), default_prompt_set(), executor=executor, **quiet).make(
        [runs], out / "planner"
    )
    make_sequences([runs], out / "sequences", executor=executor, **quiet)


def files(out: Path) -> dict[str, bytes]:
    found = [path for path in out.rglob("*") if path.is_file() and "sqlite" not in path.name]
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in found}


def test_files_do_not_depend_on_the_order_of_workers(side_by_side: Executor, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for number in range(5):
        made_run(runs / f"chain{number}", [(20 * number, False, None), (20 * number + 90, True, None)])
        pages = [grey_page(200 - 40 * number + place) for place in range(number + 1)]
        save_trajectory(accepted_story(*pages), runs / f"story{number}")
    (runs / "story4" / "pictures" / f"{grey_page(41).digest}.png").unlink()
    for name, executor in (("one", ThreadExecutor(1)), ("several", side_by_side)):
        carry_out(runs, tmp_path / name, executor, ByShade())
    assert files(tmp_path / "one") == files(tmp_path / "several")
    report = json.loads((tmp_path / "one" / "planner" / "report.json").read_text())
    assert report["rows"]["text"] == 4 and sum(report["left_out"].values()) == 6
    named = {
        name
        for row in json.loads((tmp_path / "one/planner/planner_sft.json").read_text())
        for name in row["images"]
    }
    assert named == {f"images/{path.name}" for path in (tmp_path / "one/planner/images").iterdir()}


def test_a_judge_that_is_down_ends_the_call_soon(tmp_path: Path) -> None:
    for number in range(40):
        made_run(tmp_path / "runs" / str(number), [(number, False, None), (number + 90, True, None)])
    with pytest.raises(ChatError, match="No server answers"):
        carry_out(tmp_path / "runs", tmp_path / "out", ThreadExecutor(3), ByShade(down=True))
    assert GIVE_UP < 40 and not (tmp_path / "out" / "filter").exists()


def test_an_image_is_transferred_unchanged() -> None:
    page = ImageToScore("key", None, grey_page(7), "a page")
    assert pickle.loads(pickle.dumps(page)) == page  # noqa: S301 - made here


@dataclass(frozen=True)
class Lost:
    """Returns no result for item 2."""

    def open(self, stop: CancelToken) -> Callable[[int], int | None]:
        return lambda item: None if item == 2 else item


def test_results_keep_the_order_of_items_and_a_gap_raises() -> None:
    assert list(in_order(ThreadExecutor(3), Lost(), [5, 3, 9, 1], str)) == [5, 3, 9, 1]
    with pytest.raises(SettingsError, match="2: the worker returned no result"):
        list(in_order(ThreadExecutor(3), Lost(), [5, 2], str))


def test_a_folder_that_is_not_this_machines(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="not the same folder on all machines"):
        check_shared(tmp_path / "elsewhere")
