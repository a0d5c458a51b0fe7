"""The texts of the node views in the browser: nine complete languages, without unused texts.

Texts of the code are found in the scripts; lines of the server are created here by the server's own
functions.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.languages import LANGUAGES
from support.stories import make_trajectory

from interleave_thinker import AttemptDrawn, AttemptJudged, CastMember, Plan, Planner, Request, StoryFinding
from interleave_thinker.backend.core.drift import Drift
from interleave_thinker.backend.core.types import Fault, Step, StepResult, StopReason, StoryCheck, Trajectory
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.output.exporters.typesetting import font_note
from interleave_thinker.backend.output.live.live_run import RunView, replayed
from interleave_thinker.backend.output.report.run_report import StepDrift
from interleave_thinker.backend.story.agents.plan_constraints import PlanConstraints, constrained_plan
from interleave_thinker.backend.story.agents.plan_lint import RULES, lint
from interleave_thinker.backend.story.loop.events import AttemptStarted, PlanReady, StepFinished, StoryChecked
from interleave_thinker.backend.story.outcomes import (
    UNUSED,
    AttemptOutcome,
    duration,
    stop_sentence,
    summarize,
)
from interleave_thinker.backend.story.plan_editor.edited_plan import EditedPlan
from interleave_thinker.backend.story.plan_editor.merge import apply_edits, editable

ROOT = Path(__file__).resolve().parents[2]
WEB = ROOT / "web"
SCRIPTS = [*sorted(WEB.rglob("*.js")), *sorted((ROOT / "webapp" / "page").glob("*.js"))]
"""The scripts of the nodes, and those of the web app."""
WORDS = LANGUAGES[1:]
"""English has no file, since its texts are the lookup keys of the other languages."""
SAID = re.compile(r'\bsay\(\s*"((?:[^"\\]|\\.)*)"')
SENTENCE = re.compile(r'(\bsay\(\s*)?"([A-Z][a-z]+,? [a-z][^"]*)"')
PLACE = re.compile(r"\{(\w+)\}")
NUMBER = r"[\d.,%/]+"
RARE = " \U00013000"
"""A hieroglyph, which hardly any font has."""
FREE = ("text", "rest", "part", "count")

Words = dict[str, dict[str, str]]


def words(language: str) -> Words:
    return json.loads((WEB / "words" / f"{language}.json").read_text(encoding="utf-8"))


def said_in_scripts() -> set[str]:
    scripts = [path.read_text(encoding="utf-8") for path in SCRIPTS]
    return {json.loads(f'"{text}"') for script in scripts for text in SAID.findall(script)}


def pattern(key: str) -> re.Pattern[str]:
    """As web/words.js reads a key."""
    texts, names = PLACE.split(key)[::2], PLACE.findall(key)
    places = [r"([\s\S]+?)" if name in FREE else f"({NUMBER})" for name in names]
    return re.compile(
        "".join(re.escape(text) + place for text, place in zip(texts, [*places, ""], strict=True))
    )


def looked_up(line: str, keys: list[str], used: set[str]) -> bool:
    """Return whether a line and all its translated parts have a key, and note the used keys."""
    for key in keys:
        match = pattern(key).fullmatch(line)
        if match is None:
            continue
        used.add(key)
        parts = [
            part for name, part in zip(PLACE.findall(key), match.groups(), strict=True) if name in FREE[1:]
        ]
        return all([looked_up(part, keys, used) for part in parts])
    return False


def lines_of_the_server() -> Iterator[str]:
    """Everything of which a line on a node, or of an export, is made."""
    trajectory = make_trajectory()
    for result in trajectory.results:
        for reason in StopReason:
            ended = result.model_copy(update={"stop_reason": reason})
            yield stop_sentence(ended)
            yield stop_sentence(ended.model_copy(update={"chosen": None}))
    yield stop_sentence(StepResult(step=Step(number=1, prompt="a"), stop_reason=StopReason.budget))
    approved = {"stop_reason": StopReason.picked, "approved": True}
    yield stop_sentence(trajectory.results[0].model_copy(update=approved))
    yield from (outcome.value for outcome in AttemptOutcome)
    yield from lines_of_a_run(trajectory)
    yield from (summarize(one).sentence for one in sums(trajectory))
    yield from (duration(seconds) for seconds in (0.42, 12.3, 245))
    yield from notes_of_edits()
    yield from findings_of_plans()
    for color in (0.5, 9.5):
        moved = Drift(color=color, structure=0.1)
        yield StepDrift(from_source=moved, from_anchor=Drift(color=1.0, structure=1.0)).sentence
        yield moved.sentence
    # These texts come from nodes, which only a host can load.
    yield "planning: three steps, 3% likely right"
    yield "planning outline: ..."
    yield "planning steps 11-20 of 40: a fox"
    yield from (f"{count}. {of_another_length().warning}" for count in ("1 step", "4 steps"))
    yield "More findings: 3."
    yield "4 steps. The plan of an earlier run is used."
    yield "Nothing is written while the story waits for a decision."
    yield "downloading Qwen/Qwen3-VL-8B-Instruct: 1.25 of 17.53 GB"
    yield "saved: /output/interleave-thinker/story"
    if note := font_note(make_trajectory(decorate=RARE)):
        yield f"saved: /output/interleave-thinker/story\n{note}"
    yield "1 row in /output/interleave-thinker/feedback/critic_sft.json"
    yield "12 rows in /output/interleave-thinker/feedback/critic_sft.json"


def findings_of_plans() -> Iterator[str]:
    """A message of every rule of the plan check."""
    drawn = Plan(steps=(Step(number=1, prompt="a fox"), Step(number=2, prompt="A fox.")))
    text_only = Plan(steps=(Step(number=1, auxiliary_text="Words."),))
    steps = (
        Step(number=1, prompt="Mia and Tom, @Ida", cast=("Mia",)),
        Step(number=2, prompt="tom runs"),
        Step(number=3, prompt="no Mia", cast=("Mia",)),
    )
    played = Plan(steps=steps, cast=tuple(CastMember(name=name) for name in ("Mia", "Tom", "Ben")))
    shots = (
        "CU, Mia on the left, a hat on the table",
        "CU, Mia",
        "CU, still Mia on the right, the table bare",
    )
    found = [
        *lint(Plan(steps=tuple(Step(number=n, prompt=one) for n, one in enumerate(shots, 1)))),
        *lint(drawn, "Draw two foxes in 3 steps."),
        *lint(drawn, "Explain without pictures."),
        *lint(text_only, "Draw a story."),
        *lint(Plan(steps=(*drawn.steps, Step(number=3, auxiliary_text="End."))), "A story. Three pictures."),
        *lint(played, "Mia visits Ben."),
    ]
    assert {one.rule for one in found} == RULES.keys()
    yield from (one.message for one in found)
    yield from (one.sentence for one in found if one.step is not None)


def of_another_length() -> Plan:
    reply = '{"execution_plan": [{"step_number": 1, "prompt": "a"}]}'
    return constrained_plan(
        Planner(ScriptedChat([reply, reply])), Request(text="a tale"), PlanConstraints(step_count=3)
    )


def lines_of_a_run(trajectory: Trajectory) -> Iterator[str]:
    view = RunView(trajectory.plan, trajectory.settings, judged=True)
    view.follow(PlanReady(trajectory.plan))
    yield view.line
    for result in trajectory.results:
        for number, attempt in enumerate(result.attempts):
            for event in (
                AttemptStarted(result.step, number, attempt.prompt, attempt.seed),
                AttemptDrawn(result.step, number, attempt),
                AttemptDrawn(result.step, number, attempt, reused=True),
                AttemptJudged(result.step, number, attempt),
            ):
                view.follow(event)
                yield view.line
        view.follow(StepFinished(result))
        yield view.line
    attempt = trajectory.results[0].attempts[0]
    fault = Fault(where="critic", message="The critic did not answer.")
    unjudged = attempt.model_copy(update={"verdict": None, "error": fault})
    view.follow(AttemptJudged(trajectory.results[0].step, 0, unjudged))
    yield view.line
    view.stop()
    yield view.line
    view.check()
    yield view.line
    findings = tuple(StoryFinding(step=number, kind="state", problem="A hat.") for number in (1, 2))
    for update in ({}, {"findings": findings[:1]}, {"findings": findings}, {"warning": "No reply."}):
        check = StoryCheck(key="a", checker="a", images={}).model_copy(update=update)
        view.follow(StoryChecked(check))
        yield view.line
    for message in replayed("run", trajectory).state():
        if message.shown.kind == "run":
            yield message.shown.line
        elif message.shown.kind == "step" and message.shown.sentence:
            yield message.shown.sentence


def sums(trajectory: Trajectory) -> Iterator[Trajectory]:
    yield trajectory
    first, *others = trajectory.results
    picked = first.model_copy(
        update={"stop_reason": StopReason.picked, "attempts": first.attempts[1:], "chosen": 0}
    )
    timed = picked.model_copy(update={"stop_reason": StopReason.approved_by_time})
    for one in (picked, picked.model_copy(update={"approved": True}), timed):
        yield trajectory.model_copy(update={"results": (one, *others)})
    pausing = trajectory.settings.model_copy(update={"pause": "every step"})
    for count in (1, 2):
        steps = tuple(Step(number=number, prompt="a") for number in range(1, count + 1))
        waits = {"plan": Plan(steps=steps), "results": (), "settings": pausing}
        yield trajectory.model_copy(update=waits)
    alone = trajectory.model_copy(update={"results": (others[0],), "plan": Plan(steps=(others[0].step,))})
    yield alone
    drawn = [result for result in trajectory.results if result.attempts]
    unjudged = tuple(one.model_copy(update={"stop_reason": StopReason.unjudged}) for one in drawn)
    for results in (unjudged, unjudged[:1]):
        yield trajectory.model_copy(update={"results": results})
    yield trajectory.model_copy(update={"unused": tuple(UNUSED)})


def notes_of_edits() -> Iterator[str]:
    steps = [Step(number=number, prompt=f"scene {number}") for number in (1, 2, 3, 4)]
    planned = Plan(steps=tuple(steps))
    base = editable(planned)
    other = Plan(steps=tuple(step.model_copy(update={"prompt": f"new {step.number}"}) for step in steps))
    changed = [
        one.model_copy(update={"step": one.step.model_copy(update={"prompt": f"mine {one.step.number}"})})
        for one in base.steps
    ]

    def note(edits: EditedPlan | None, plan: Plan | None) -> str:
        return apply_edits(edits, plan).note

    def edited(*numbers: int) -> EditedPlan:
        mixed = [changed[index] if index + 1 in numbers else one for index, one in enumerate(base.steps)]
        return base.model_copy(update={"steps": tuple(mixed)})

    turned = tuple(
        one.model_copy(update={"step": one.step.model_copy(update={"number": number})})
        for number, one in enumerate(reversed(base.steps), start=1)
    )
    yield note(None, planned)
    yield note(base.model_copy(update={"made_from": ()}), None)
    yield note(EditedPlan(steps=base.steps[:1], made_from=()), None)
    yield note(base.model_copy(update={"made_from": ()}), planned)
    yield note(base, planned)
    yield note(base.model_copy(update={"steps": turned}), planned)
    yield from (note(edited(*numbers), planned) for numbers in ((2,), (1, 2, 3)))
    yield from (note(edited(*numbers), other) for numbers in ((), (2,), (1, 3), (1, 2, 3), (1, 2, 3, 4)))
    yield note(base.model_copy(update={"steps": turned}), other)
    yield note(base, planned) + " The plan is too long for the list editor."


@pytest.mark.parametrize("language", WORDS)
def test_every_language_has_exactly_the_texts_of_the_scripts(language: str) -> None:
    assert set(words(language)["view"]) == said_in_scripts()


def test_no_english_text_bypasses_translation() -> None:
    for path in SCRIPTS:
        sentences = SENTENCE.findall(path.read_text(encoding="utf-8"))
        assert [text for said, text in sentences if not said] == [], path.name


def test_every_language_knows_the_same_lines_of_the_server_in_the_same_order() -> None:
    first, *others = (list(words(language)["server"]) for language in WORDS)
    assert all(keys == first for keys in others)


def test_every_server_line_has_a_translation_and_every_translation_is_used() -> None:
    keys, used = list(words("fr")["server"]), set[str]()
    for line in lines_of_the_server():
        assert looked_up(line, keys, used), line
    unused = set(keys) - used
    with_rare_font = {
        key for key in unused if "No installed font" in key or key.startswith("saved: {text}\n")
    }
    assert unused == with_rare_font


TAGS = "fr=fr FR-ca=fr zh=zh zh-TW=zh-TW zh-tw=zh-TW zh-HK=zh ko-KR=ko ru-RU=ru tr=tr de=en de-AT=en pt=en"
RESOLVED = dict(one.split("=") for one in f"{TAGS} pt-BR=pt-BR pt-br=pt-BR pt-PT=en en-GB=en =en".split())
"""Languages that the front end uses for the values of its setting."""
ASK = """import {LANGUAGES, resolved} from MODULE;
console.log(JSON.stringify([LANGUAGES, TAGS.map(resolved)]));"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the script")
def test_a_setting_selects_the_same_language_as_the_front_end(tmp_path: Path) -> None:
    # node takes a file without a package.json around it for a module by its ending alone.
    module = shutil.copy(WEB / "languages.js", tmp_path / "languages.mjs")
    script = ASK.replace("MODULE", json.dumps(Path(module).as_uri())).replace("TAGS", json.dumps([*RESOLVED]))
    command = ["node", "--input-type=module", "--eval", script]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    languages, resolved = json.loads(answer)
    assert dict(zip(RESOLVED, resolved, strict=True)) == RESOLVED
    assert sorted(languages) == sorted(WORDS) == sorted(path.stem for path in (WEB / "words").iterdir())
