"""Files made by an earlier version (`tests/data`, never recreated) are read completely.

They contain a run with feedback and a pick, made by the tiny world's agents and the fake generator; the
agents shipped then; the rows made from the run by the node and the command; an adapter trained on them with
its run's note; and a workflow. File names, identities and cache keys are a format: a finished run generates
nothing when it is run again. Two things were updated: the digest of the planner's weights, which were packed
again (`planner:76a2...` and the key of the plan that follows from it), and the names of the settings in the
note of the training, which are those of 0.2.0.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.cli_calls import call

from interleave_thinker import PlanConstraints, PromptSet, RunSettings, StopReason, load_trajectory
from interleave_thinker.backend.models.checkpoints.checkpoint import check_adapter
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.output.feedback_log import Feedback, read_feedback
from interleave_thinker.backend.output.sft_rows import add_feedback_rows
from interleave_thinker.backend.story.journal.choices import read_choices
from interleave_thinker.backend.story.outcomes import summarize, times_of
from interleave_thinker.training.from_runs.convert import RunConverter
from interleave_thinker.training.from_runs.settings import RunsData
from interleave_thinker.training.rows.sft import RowSet, read_rows
from interleave_thinker.training.stages.sft import SftData, SftTraining, train

DATA = Path(__file__).parent / "data"
PLANNER, CRITIC = (DATA / "agents" / name for name in ("planner", "critic"))
ROOT = DATA.parents[1]
REQUEST = "Draw a sea page with a red boat in the middle. Then make it blue."


def content(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


FORMER = {"every try": "every attempt", "tries used up": "attempts used up"}


def known(stored: dict[str, Any]) -> dict[str, Any]:
    """Return a stored file with today's values, without the settings that this version does not have."""
    text = json.dumps(stored)
    for former, value in FORMER.items():
        text = text.replace(f'"{former}"', f'"{value}"')
    stored = json.loads(text)
    gone = RunSettings.past_fields
    return stored | {"settings": {key: one for key, one in stored["settings"].items() if key not in gone}}


def records(run: Path) -> dict[str, bytes]:
    """Return everything that was generated and judged, by key."""
    found = (path for name in ("attempts", "verdicts", "pictures") for path in (run / name).iterdir())
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in found}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "run", tmp_path / "run"))


def test_a_run_is_read_completely(run: Path) -> None:
    trajectory = load_trajectory(run)
    assert trajectory.model_dump(mode="json") == known(content(run / "trajectory.json"))
    pictures = [attempt.image for result in trajectory.results for attempt in result.attempts]
    assert {f"{picture.digest}.png" for picture in pictures if picture and picture.image} <= {
        path.name for path in (run / "pictures").iterdir()
    }
    picked = read_choices(run).steps[1]
    assert trajectory.results[0].image and trajectory.results[0].image.digest == picked


def test_former_values_are_read_as_those_of_today() -> None:
    assert RunSettings.model_validate({"seed_rule": "every try"}) == RunSettings()
    assert PlanConstraints.model_validate({"captions": "as asked"}) == PlanConstraints()
    assert StopReason("tries used up") is StopReason.attempts_used_up
    for name in ("every attempts", "tries"):
        with pytest.raises(ValueError, match=name):
            RunSettings.model_validate({"seed_rule": name})


def test_a_run_is_read_from_its_records(run: Path) -> None:
    whole = load_trajectory(run)
    (run / "trajectory.json").unlink()
    again = load_trajectory(run)
    assert times_of(again) and not times_of(whole), "the records have the time of each verdict"
    assert [result.image for result in again.results] == [result.image for result in whole.results]
    assert summarize(again) == summarize(whole)


def test_a_finished_run_repeats_nothing(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(*arguments: object) -> None:
        raise AssertionError(f"drawn again: {arguments[1:]}")

    monkeypatch.setattr(FakeGenerator, "draw", draw)
    before, noted = records(run), content(run / "run.json")
    ended_as = content(run / "trajectory.json")
    agents = ("--planner", f"transformers:{PLANNER}", "--critic", f"transformers:{CRITIC}")
    # As opened by `tinyworld:planner` and `tinyworld:critic`.
    opened = ("--set", "dtype=float32", "--device", "cpu")
    drawn = ("--seed", 3, "--generator", "fake:48", "--max-attempts", 3)
    ended = call("run", REQUEST, "--out", run, *agents, *opened, *drawn)
    assert ended.exit_code == 3, ended.output  # as then: no attempt was accepted
    assert records(run) == before
    # A file that is written again has a checksum, which earlier versions did not write.
    for name, before_run in (("run.json", noted), ("trajectory.json", ended_as)):
        stored = content(run / name)
        stored.pop("checksum", None)
        for attempt in (one for result in stored.get("results", ()) for one in result["attempts"]):
            attempt.pop("judging", None)
        assert stored == known(before_run)


def test_feedback_is_read(run: Path) -> None:
    pictures = [line["image"] for line in map(json.loads, (run / "feedback.jsonl").read_text().splitlines())]
    assert read_feedback(run) == [
        Feedback(step=1, attempt=0, accepted=False, note="The boat is not red.", image=pictures[0]),
        Feedback(step=1, attempt=1, accepted=True, image=pictures[1]),
        Feedback(
            step=2, attempt=0, accepted=False, better_prompt="make the boat bright blue", image=pictures[2]
        ),
    ]


def test_feedback_becomes_the_same_rows_in_the_node(run: Path, tmp_path: Path) -> None:
    prompt_set = PromptSet.load(DATA / "prompt_set")
    add_feedback_rows(tmp_path / "rows", load_trajectory(run), read_feedback(run), prompt_set)
    assert content(tmp_path / "rows" / "critic_sft.json") == content(DATA / "node_rows" / "critic_sft.json")


def test_feedback_becomes_the_same_rows_on_the_command_line(run: Path, tmp_path: Path) -> None:
    prompt_set = PromptSet.load(CRITIC / "prompt_set")
    made = RunConverter(RunsData(rl_variance=0), prompt_set, log=str).convert([run], tmp_path / "rows")
    assert made.sft and content(made.sft) == content(DATA / "rows" / "critic_sft.json")
    images = {path.name for path in (DATA / "rows" / "images").iterdir()}
    assert {path.name for path in (tmp_path / "rows" / "images").iterdir()} == images


def test_an_old_adapter_loads_and_judges_as_before(run: Path) -> None:
    pytest.importorskip("peft", reason="adapters need peft")
    from interleave_thinker.backend.models.chat import open_chat
    from interleave_thinker.backend.story.agents.critic import Critic

    adapter, said = DATA / "training" / "final", content(DATA / "training" / "reply.json")
    check_adapter(adapter)
    spec = f"transformers:{CRITIC}"
    critic = Critic(open_chat(spec, adapter=str(adapter), device="cpu", dtype="float32"))
    first = load_trajectory(run).results[0]
    attempt = first.attempts[1]
    assert attempt.image
    verdict = critic.judge(attempt.source, attempt.image, first.step.prompt or "", attempt.prompt)
    assert verdict.model_dump(exclude={"probability"}) == said["verdict"]
    # Everything that shapes a reply, except how it is computed: checkpoint, adapter, prompt set, settings.
    # The training recorded the size of its images, which agents now obey.
    identity = critic.identity.replace('"max_pixels":4096,', "")
    wanted, found = (set(one.split(":")) for one in (said["identity"], identity))
    assert {part for part in wanted if "=" not in part or part.startswith("adapter")} - found <= {"heads"}


def test_a_finished_training_is_known_as_finished(tmp_path: Path) -> None:
    out = Path(shutil.copytree(DATA / "training", tmp_path / "training"))
    known = content(out / "training.json")
    settings = SftTraining.model_validate(
        {name: known[name] for name in SftTraining.model_fields if name in known}
        | {"tensorboard": False, "device": "cpu"}
    )
    rows, lines = read_rows(DATA / "rows" / "critic_sft.json"), list[str]()
    data = SftData(RowSet(rows, DATA / "rows"))
    assert train(CRITIC, data, out, settings, log=lines.append) == out / "final"
    assert lines == ["this training is finished"]


def test_a_workflow_uses_only_existing_nodes_and_inputs() -> None:
    nodes = content(ROOT / "locales" / "en" / "nodeDefs.json")
    graph = content(DATA / "workflow.json")
    ours = [node for node in graph["nodes"] if node["type"].startswith("Interleave")]
    assert len(ours) == 10
    for node in ours:
        known = nodes[node["type"]]
        names = {one["name"].replace(".", "_") for one in node.get("inputs", [])}
        assert names <= set(known.get("inputs", {})), node["type"]
        assert len(node.get("outputs", [])) <= len(known.get("outputs", {})), node["type"]
