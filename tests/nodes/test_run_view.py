"""Messages to the browser about a run: small, complete for later browsers, and exactly what was recorded."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.stories import make_trajectory

from interleave_thinker import Attempt, AttemptJudged, Picture, Plan, SettingsError, StoryCheck, StoryFinding
from interleave_thinker.backend.core.types import CheckedItem, Enhancement, Redraw, RunSettings, Step, Verdict
from interleave_thinker.backend.core.types.checklist import MAX_ITEMS
from interleave_thinker.backend.output.live.browser_requests import thumbnail
from interleave_thinker.backend.output.live.live_messages import LINE_BYTES, LiveMessage, clip, marked
from interleave_thinker.backend.output.live.live_run import (
    MOVES_PER_STEP,
    Allowance,
    LiveRun,
    LiveRuns,
    LiveTarget,
    replayed,
)
from interleave_thinker.backend.story.journal.run_files import RunFiles
from interleave_thinker.backend.story.loop.events import AttemptDrawn, AttemptStarted, PlanReady, StoryChecked
from interleave_thinker.backend.story.outcomes import Lack
from interleave_thinker.nodes.inputs.run_folder import RunWatch

NASTY = ['x" \\ ' * 4000, "猫" * 9000, "\x00\x1f" * 5000, "word " * 5000]


def size(message: LiveMessage) -> int:
    return len(json.dumps({"type": "interleave-thinker", "data": message.model_dump(mode="json")}))


def newest(messages: list[LiveMessage]) -> dict[str, LiveMessage]:
    return {message.shown.key: message for message in messages}


Shown = tuple[LiveRun, tuple[Step, ...], list[LiveMessage], list[float]]


def shown(*prompts: str, name: str = "", **settings: int) -> Shown:
    """Return the view of a run, its steps, what it sent, and its clock in seconds."""
    steps = (Step(number=n, name=name, prompt=one, auxiliary_text=name) for n, one in enumerate(prompts, 1))
    plan, sent, now = Plan(steps=tuple(steps)), list[LiveMessage](), [0.0]
    target = LiveTarget("12", "w" * 36, sent.append)
    live = LiveRun("a-run-0123456789", plan, RunSettings(**settings), True, target, clock=lambda: now[0])
    live.follow(PlanReady(plan))
    return live, plan.steps, sent, now


def drawn(live: LiveRun, at: Step, number: int = 0, **given: Any) -> tuple[Step, int, Attempt]:
    """Show an attempt up to its image, and return its place and record."""
    attempt = Attempt(prompt=at.prompt or "", seed=number, image=Picture.white((64, 64)), **given)
    live.follow(AttemptStarted(at, number, attempt.prompt, number))
    live.follow(AttemptDrawn(at, number, attempt))
    return at, number, attempt


def judge(live: LiveRun, place: tuple[Step, int, Attempt], verdict: Verdict) -> None:
    step, number, attempt = place
    live.follow(AttemptJudged(step, number, attempt.model_copy(update={"verdict": verdict})))


def test_a_judged_attempt_has_its_items_apart_from_the_reasoning() -> None:
    live, (step,), sent, _ = shown("two boats")
    items = (CheckedItem(text="two boats", kind="count", probability=0.1, passed=False),)
    judge(live, drawn(live, step), Verdict(success=False, reasoning="Only one.", items=items))
    found = newest(sent)["attempt 1 0"].model_dump(mode="json")["shown"]
    assert found["reasoning"] == "Only one."
    assert found["items"] == [{"text": "two boats", "kind": "count", "probability": 0.1, "passed": False}]


@pytest.mark.parametrize("text", NASTY)
def test_an_attempt_takes_under_20_kB_and_its_checklist_16_for_any_text(text: str) -> None:
    live, (step,), sent, now = shown(text, name=text)
    before = len(sent)
    place = drawn(live, step, enhancement=Enhancement(prompt=text))
    for index in range(0, len(text), 7):
        now[0] += 0.05
        live.hear(text[index : index + 7])
    verdict = Verdict(success=False, refined_prompt=text[::-1], reasoning=text, probability=0.5)
    judge(live, place, verdict)
    assert sum(map(size, sent[before:])) < 20_000
    assert max(map(size, sent)) < 8_000
    items = tuple(CheckedItem(text=f"{index} {text[:190]}", probability=1 / 3) for index in range(MAX_ITEMS))
    judge(live, place, verdict.model_copy(update={"items": items}))
    assert size(sent[-1]) - size(sent[-2]) < 16_000


@pytest.mark.parametrize("text", NASTY)
def test_a_story_check_takes_under_8_kB_and_names_attempts_of_the_run(text: str) -> None:
    trajectory = make_trajectory()
    live = replayed("run", trajectory)
    result = trajectory.results[0]
    number, image = result.step.number, result.attempts[1].image
    assert image and not any(one.shown.kind == "check" for one in live.state())
    found = tuple(
        StoryFinding(step=number, kind="order", problem=f"{one} {text[:5000]}") for one in range(100)
    )
    check = StoryCheck(
        key="a", checker="a", images={number: image.digest}, findings=found, warning=text[:9000]
    )
    live.follow(StoryChecked(check))
    message = newest(live.state())["check"]
    assert size(message) < 8_000
    assert {(one.step, one.attempt) for one in message.shown.findings} == {(number, 2)}
    assert len(message.shown.findings) + message.shown.more == 100
    for images in ({number: "0" * 40}, {99: image.digest}):
        live.follow(StoryChecked(check.model_copy(update={"images": images, "findings": ()})))
        assert newest(live.state())["check"] == message, "a check of images that the run does not have"


def test_the_newest_messages_contain_the_whole_state() -> None:
    live = replayed("run", make_trajectory())
    state = newest(live.state())
    assert {key for key in state if key.startswith("step")} == {f"step {number}" for number in range(1, 6)}
    refused, accepted = state["attempt 1 0"].shown, state["attempt 1 1"].shown
    assert (refused.outcome, refused.tone, refused.probability) == ("rejected", "open", 0.08)
    assert (accepted.outcome, accepted.tone) == ("accepted", "good")
    assert [kind for kind, _ in accepted.prompt] == ["same", "ins"], "the critic's additions are marked"
    assert state["attempt 3 0"].shown.outcome == "failed" and state["attempt 3 0"].shown.error
    assert state["attempt 3 1"].shown.outcome == "not understood"
    assert state["step 3"].shown.tone == "open" and "Never accepted" in state["step 3"].shown.sentence
    run = state["run"].shown
    assert (run.status, run.share, run.missing) == ("incomplete", 1.0, {Lack.attempts_failed: [3]})
    assert run.model_dump(mode="json")["missing"] == {"attempts failed": [3]}
    assert replayed("run", make_trajectory(2, text_step=False)).state()[-1].shown.status == "finished"
    assert replayed("run", make_trajectory(cut_short=True)).state()[-1].shown.status == "cancelled"


def test_a_late_client_gets_all_text_so_far() -> None:
    live, (step,), sent, now = shown("a")
    live.follow(AttemptStarted(step, 0, "a", 1))
    for word in ["the", "house", "is", "too", "small"]:
        now[0] += 1.0
        live.hear(word + " ")
    (words,) = [message.shown for message in live.state() if message.shown.kind == "words"]
    assert (words.at, words.text) == (0, "the house is too small ")
    pieces = [message.shown for message in sent if message.shown.kind == "words"]
    assert "".join(one.text for one in pieces) == words.text
    assert [one.at for one in pieces] == [0, 4, 10, 13, 17]


def test_the_view_forgets_old_runs_and_keeps_nodes_apart() -> None:
    plan = Plan(steps=(Step(number=1, prompt="a"),))
    runs = LiveRuns()
    for number in range(100):
        runs.begin(LiveRun("run", plan, RunSettings(), False, LiveTarget(str(number), "w")))
    assert runs.find("99", "w") and not runs.find("99", None) and not runs.find("0", "w")


def test_clipping_counts_bytes_as_they_are_sent() -> None:
    for text in NASTY:
        assert len(json.dumps(clip(text, LINE_BYTES))) <= LINE_BYTES
    assert clip("short", LINE_BYTES) == "short"
    pieces = marked("a red house", "a blue house")
    assert pieces == [("same", "a "), ("del", "red"), ("ins", "blue"), ("same", " house")]


def test_a_steps_allowance_holds_for_any_number_of_attempts() -> None:
    for attempts in (1, 5, 100):
        allowance, moves = Allowance(attempts), 0
        for _ in range(attempts):
            allowance.new_attempt()
            moves += sum(allowance.may_move((step + 1) / 50) for step in range(50))
        assert moves <= max(MOVES_PER_STEP, attempts)
    assert sum(Allowance(1).may_send(20_000) for _ in range(100)) == 100
    allowance = Allowance(1)
    assert sum(allowance.may_send(20_000) for _ in range(100)) * 20_000 <= 250_000


def test_a_pick_outdates_the_nodes_result_once(tmp_path: Path) -> None:
    watch = RunWatch()
    mine, other = tmp_path / "mine", tmp_path / "other"
    for folder in (mine, other):
        folder.mkdir()
    (mine / "choices.json").write_text("{}")
    assert watch.edition("7") == 0
    watch.runs("7", mine)
    watch.runs("8", other)
    assert (watch.edition("7"), watch.edition("8")) == (0, 0), "a choice made before the run does not count"
    (mine / "choices.json").write_text('{"steps": {}}')
    assert (watch.edition("7"), watch.edition("7"), watch.edition("8")) == (1, 1, 0)
    (mine / "choices.json").unlink()
    assert watch.edition("7") == 2


def test_a_deleted_folder_outdates_the_result_once(tmp_path: Path) -> None:
    watch = RunWatch()
    kept, gone = tmp_path / "kept", tmp_path / "gone"
    for folder in (kept, gone):
        watch.runs("7", folder)
        folder.mkdir()
    editions = [watch.edition("7")]
    gone.rmdir()
    editions += [watch.edition("7"), watch.edition("7")]
    watch.runs("7", gone)
    gone.mkdir()
    assert [*editions, watch.edition("7")] == [0, 1, 1, 1]


def test_a_result_of_a_run_that_is_not_complete_is_out_of_date(tmp_path: Path) -> None:
    watch = RunWatch()
    editions = [watch.edition("7")]
    for is_incomplete in (True, True, False, True):
        watch.runs("7", tmp_path)
        if is_incomplete:
            watch.incomplete("7")
        editions += [watch.edition("7"), watch.edition("7")]
    assert editions == [0, 1, 1, 2, 2, 2, 2, 3, 3] and watch.edition("8") == 0


def test_parallel_candidates_and_steps_are_separate() -> None:
    """Parallel verdicts and texts are assigned by step and attempt."""
    live, (first, other), *_ = shown("a", "b")
    _, second, _ = drawn(live, first), drawn(live, other), drawn(live, first, 1)
    live.hear("seen")
    judge(live, second, Verdict(success=True))
    state = newest(live.state())
    assert state["words 1 0"].shown.text == "seen", "words on step 1 stay, though step 2 was judged"
    statuses = {key: one.shown.status for key, one in state.items() if key.startswith("attempt")}
    assert statuses == {"attempt 1 0": "judging", "attempt 1 1": "judging", "attempt 2 0": "done"}
    assert state["attempt 2 0"].shown.outcome == "accepted"


def test_a_redraw_is_marked_in_the_view() -> None:
    live, (step,), *_ = shown("a", max_attempts=1)
    live.follow(AttemptStarted(step, 0, "a", 1))
    live.follow(AttemptStarted(step, 1, "a b", 2, Redraw(number=3)))
    state = newest(live.state())
    assert [state[f"attempt 1 {number}"].shown.redraw for number in (0, 1)] == [0, 3]
    assert state["run"].shown.line == "Step 1, attempt 2 of 2: generating" and state["run"].shown.share <= 1.0


@pytest.mark.parametrize(("asked", "side"), [(1, 256), (256, 256), (257, 512), (1024, 1024), (4000, 1024)])
def test_thumbnails_are_small_webp_of_a_few_sizes(tmp_path: Path, asked: int, side: int) -> None:
    picture = Picture(Image.effect_noise((1600, 1200), 64).convert("RGB"))
    RunFiles(tmp_path).write_picture(picture)
    data = thumbnail(tmp_path, picture.digest, asked)
    small = Image.open(BytesIO(data))
    assert (small.format, small.size) == ("WEBP", (side, side * 3 // 4))
    assert len(data) < len(picture.png()) / 2
    with pytest.raises(SettingsError, match=r"image .* was not found"):
        thumbnail(tmp_path, "f" * 40, asked)
