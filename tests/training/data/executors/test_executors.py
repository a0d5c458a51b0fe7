"""Both executors process every item once, with a limit, stop by one token, and retry lost items."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.ray_here import ray_here
from support.small_jobs import Deadly, Folders, Squares, Unopened
from support.small_teachers import SmallTeachers, records, write_prompts

from interleave_thinker.backend.errors import InterleaveError, SettingsError
from interleave_thinker.training.data.executors import Executor, ItemResult, LocalCancelToken, ray_actors
from interleave_thinker.training.data.executors.ray_actors import RayExecutor
from interleave_thinker.training.data.executors.ray_cancel import Board, RayCancelToken
from interleave_thinker.training.data.executors.threads import ThreadExecutor
from interleave_thinker.training.data.trajectories.engine import PromptFile, Trajectories
from interleave_thinker.training.data.trajectories.options import TrajectoryOptions

ASKED = "INTERLEAVE_TEST_RAY"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    if not os.environ.get(ASKED):
        pytest.skip(f"starts a Ray cluster, half a minute of two busy cores: set {ASKED}=1")
    with ray_here(tmp_path_factory.mktemp("package")):
        yield


@pytest.fixture(params=["threads", "ray"])
def executor(request: pytest.FixtureRequest) -> Executor:
    if request.param == "threads":
        return ThreadExecutor(4)
    request.getfixturevalue("cluster")
    return RayExecutor(actors=2, parallel=2)


def test_every_item_is_processed_once(executor: Executor) -> None:
    done = list(executor.map(Squares(), range(30), str, LocalCancelToken()))
    assert sorted((int(one.key), one.result) for one in done) == [(n, n * n) for n in range(30)]


def test_no_more_is_taken_than_is_under_way() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(40):
            taken.append(number)
            yield number

    for seen, _ in enumerate(ThreadExecutor(4).map(Squares(), items(), str, LocalCancelToken()), 1):
        assert len(taken) <= seen + 4


def test_a_stop_signal_still_returns_started_items(executor: Executor) -> None:
    stop = LocalCancelToken(budget=5.0)
    done = list(executor.map(Squares(costs=1.0, seconds=0.2), range(200), str, stop))
    assert stop.reason() == "the budget was spent"
    assert 5 <= len(done) <= 40
    assert stop.spent() >= 5


def test_a_job_that_cannot_be_opened_reports_the_reason(executor: Executor) -> None:
    with pytest.raises(InterleaveError, match="The model does not exist"):
        list(executor.map(Unopened(), range(3), str, LocalCancelToken()))


def test_closing_early_stops_the_executor() -> None:
    stop = LocalCancelToken()
    results: Iterator[ItemResult[int]] = ThreadExecutor(4).map(Squares(), range(1000), str, stop)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert stop.reason() == "stopped"
    assert not [one for one in threading.enumerate() if one.name.startswith("work")]


def test_a_lost_item_is_retried_and_a_fatal_one_returned(cluster: None, tmp_path: Path) -> None:
    (tmp_path / "once").mkdir()
    done = list(RayExecutor(2, 1).map(Deadly(tmp_path / "once", 1), range(8), str, LocalCancelToken()))
    assert sorted((int(one.key), one.result) for one in done) == [(n, n * n) for n in range(8)]
    (tmp_path / "always").mkdir()
    done = list(RayExecutor(1, 1).map(Deadly(tmp_path / "always", 99), range(2, 5), str, LocalCancelToken()))
    assert {one.key: one.lost for one in done if one.lost} == {
        "3": "4 workers died while processing it (ActorDiedError)"
    }
    assert len(done) == 3


def test_workers_use_the_commands_folder(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = list(RayExecutor(2, 1).map(Folders(), range(4), str, LocalCancelToken()))
    assert {one.result for one in done} == {str(tmp_path)}


def test_the_loss_of_the_commands_node_is_one_error(cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    class Lost(Board):
        def reason(self) -> str:
            ray.kill(self.handle)
            return super().reason()

    monkeypatch.setattr(ray_actors, "Board", Lost)
    with pytest.raises(SettingsError, match="The Ray node of this machine was lost"):
        list(RayExecutor(1, 1).map(Squares(seconds=0.2), range(50), str, LocalCancelToken()))


def test_a_worker_continues_if_the_token_does_not_answer(cluster: None) -> None:
    import ray

    lost: Any = ray.remote(LocalCancelToken).remote()
    ray.kill(lost)
    assert RayCancelToken(lost).reason() == ""


def test_workers_without_room_are_reported(
    cluster: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ray_actors, "REPORTED_EVERY", 1.0)
    stop = LocalCancelToken(seconds=4)
    assert not list(RayExecutor(1, 1, cpus=64).map(Squares(), range(3), str, stop))
    assert "Each needs 64 CPUs; 2 of the cluster's 2 are free." in caplog.text


def test_the_time_of_items_is_not_a_wait_for_workers(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ahead = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead)
    monkeypatch.setattr(ray_actors, "time", clock)
    # The only worker dies at an item, after others that took minutes.
    for _ in RayExecutor(1, 1).map(Deadly(tmp_path, 1), range(5), str, LocalCancelToken()):
        ahead += ray_actors.REPORTED_EVERY
    assert "No Ray worker has started" not in caplog.text


def test_threads_and_ray_give_the_same_files(cluster: None, tmp_path: Path) -> None:
    prompts = PromptFile(write_prompts(tmp_path / "prompts.jsonl", 12))
    for name, executor in (("threads", ThreadExecutor(3)), ("ray", RayExecutor(2, 2))):
        engine = Trajectories(
            tmp_path / name, SmallTeachers(generators=2), TrajectoryOptions(), executor, log=lambda line: None
        )
        assert engine.make(prompts).totals.to_do == 0
    assert records(tmp_path / "threads") == records(tmp_path / "ray")
