"""The browser's state of a run (web/live/state.js), run by node with the messages that the pack sends."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from interleave_thinker import AttemptStarted, Finished, PlanReady, Waiting
from interleave_thinker.backend.core.types import Plan, Request, RunSettings, Step, Trajectory
from interleave_thinker.backend.output.live.live_messages import AttemptShown, LiveMessage
from interleave_thinker.backend.output.live.live_run import LiveRun, LiveTarget

STATE = Path(__file__).resolve().parents[2] / "web" / "live" / "state.js"
SCRIPT = """import {RunState} from MODULE;
const {calls} = JSON.parse(await new Response(process.stdin).text());
const state = new RunState();
const after = ([name, value]) => { state[name](value); return VALUE; };
console.log(JSON.stringify(calls.map(after)));"""
WAITS = {"step": 1, "digest": "a" * 40}

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node runs the script")


def waiting_after(folder: Path, *calls: tuple[str, Any]) -> list[Any]:
    """Return what the state says the run waits for after each call of one of its methods."""
    return after_each(folder, "state.waiting ?? null", *calls)


def after_each(folder: Path, value: str, *calls: tuple[str, Any]) -> list[Any]:
    """Return the value of an expression about `state` after each call of one of its methods."""
    # node takes a file without a package.json around it for a module by its ending alone.
    module = shutil.copy(STATE, folder / "state.mjs")
    script = SCRIPT.replace("MODULE", json.dumps(Path(module).as_uri())).replace("VALUE", value)
    answer = subprocess.run(
        ["node", "--input-type=module", "--eval", script], input=json.dumps({"calls": calls}),
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return json.loads(answer.stdout)


def messages() -> list[dict[str, Any]]:
    """Return the messages of a run about itself: it begins, and ends with a wait for step 1."""
    plan, sent = Plan(steps=(Step(number=1, prompt="a"),)), list[LiveMessage]()
    live = LiveRun("run", plan, RunSettings(), False, LiveTarget(send=sent.append))
    trajectory = Trajectory(request=Request(text="a"), plan=plan, settings=RunSettings(), results=())
    live.follow(PlanReady(plan))
    live.follow(Finished(trajectory, Waiting(**WAITS)))
    return [one.model_dump(mode="json") for one in sent if one.shown.kind == "run"]


def test_a_run_that_pauses_waits_whatever_the_server_said_before(tmp_path: Path) -> None:
    begun, ended = messages()
    earlier = {"decided": True}  # the answer to feedback, or to the page's first question, during the run
    assert waiting_after(tmp_path, ("take", begun), ("noted", earlier), ("take", ended)) == [
        None,
        None,
        WAITS,
    ]


def test_a_decision_ends_the_wait(tmp_path: Path) -> None:
    begun, ended = messages()
    restored = {"messages": [begun, ended], "decided": False}
    calls = [("restore", restored), ("noted", {"decided": True}), ("restore", restored | {"decided": True})]
    assert waiting_after(tmp_path, *calls) == [WAITS, None, None]


def test_a_step_that_is_generated_again_shows_none_of_its_earlier_attempts(tmp_path: Path) -> None:
    step, sent = Step(number=1, prompt="a"), list[LiveMessage]()
    plan = Plan(steps=(step,))
    live = LiveRun("run", plan, RunSettings(), False, LiveTarget(send=sent.append))
    live.follow(PlanReady(plan))
    for number in (0, 1, 0):
        live.follow(AttemptStarted(step, number, "a", number))
    calls = [("take", one.model_dump(mode="json")) for one in sent if one.shown.kind != "run"]
    counts = after_each(tmp_path, "state.attempts.get(1)?.length ?? 0", *calls)
    assert counts[-5:] == [0, 1, 2, 0, 1]
    kept = [one.shown.attempt for one in live.state() if isinstance(one.shown, AttemptShown)]
    assert kept == [0], "a browser that connects later gets the same"
