"""The regression gate does not publish a critic that got worse; and the whole way from runs to a critic."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from support.made_runs import made_run, say
from support.tiny_checkpoint import ACCEPTED, QUESTION, REFUSED, page, taught_checkpoint

pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')

from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.prompts.agent_card import KindReliability, read_card
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.core.types import Plan, Step, Verdict
from interleave_thinker.backend.models.chat import ReplySettings, open_chat
from interleave_thinker.backend.story.agents.critic import Critic
from interleave_thinker.cli import main
from interleave_thinker.cli.train import command as cli_train
from interleave_thinker.cli.train.own_critic import reinforcement_of
from interleave_thinker.training.from_runs.settings import RunsData
from interleave_thinker.training.gate.gate_rows import (
    GateSettings,
    askable,
    chosen,
    examination,
    needed,
)
from interleave_thinker.training.gate.regression_gate import (
    GATE_FILE,
    GateRefused,
    RegressionGate,
    answers_of,
    compare,
    enforce,
    learned_line,
    measured,
)
from interleave_thinker.training.gate.reliability import reliability_of
from interleave_thinker.training.rows.lengths import TokenLimit
from interleave_thinker.training.rows.sft import RowSet, SftMessage, SftRow, read_rows, truth_of, write_rows
from interleave_thinker.training.stages.own_critic import (
    OwnCriticAgents,
    OwnCriticData,
    OwnCriticSettings,
    Rehearsal,
    _OwnCritic,
    check_rows,
    check_steps,
    mix,
    split,
    train_own_critic,
)
from interleave_thinker.training.stages.sft import SftData, SftTraining, train
from interleave_thinker.training.statistics import agresti_min_interval, sign_test

GENTLE = SftTraining(
    num_train_epochs=1,
    per_device_train_batch_size=4,
    learning_rate=1e-7,
    warmup_steps=0,
    device="cpu",
    tensorboard=False,
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return taught_checkpoint(tmp_path_factory.getbasetemp())


def rows_file(folder: Path, right: bool = True, count: int = 40, shift: int = 0) -> Path:
    """Write rows of light and dark images with right or wrong verdicts; `shift=1` gives other shades."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(count):
        light = number % 2 == 0
        grey = (200 if light else 30) + number + shift
        page(grey).image.save(folder / f"{grey}.png")
        answer = ACCEPTED if light == right else REFUSED
        turns = [
            SftMessage(role="user", content=f"<image>{QUESTION}"),
            SftMessage(role="assistant", content=answer),
        ]
        rows.append(SftRow(messages=turns, images=[f"{grey}.png"]))
    path = folder / "critic_sft.json"
    write_rows(path, rows)
    return path


def call(monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> int:
    monkeypatch.setattr(sys, "argv", ["interleave-thinker", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


# The rule


def answers(said: list[bool | None]) -> list[str]:
    return ["no idea" if one is None else ACCEPTED if one else REFUSED for one in said]


TRUTHS = [True] * 40 + [False] * 40


def one_wrong(*places: int) -> list[bool | None]:
    return [not truth if number in places else truth for number, truth in enumerate(TRUTHS)]


def test_equal_critics_pass() -> None:
    old = measured(answers(one_wrong(78, 79)), TRUTHS)
    assert compare(old, old, GateSettings()).passed
    assert (old.accuracy.rate, old.true_recall.rate, old.false_recall.rate) == (0.975, 1.0, 0.95)


@pytest.mark.parametrize(
    "said", [[True] * 80, [False] * 80, [None] * 80, one_wrong(40, 41, 42), one_wrong(1, 2, 3)]
)
def test_the_gate_rejects_a_worse_critic(said: list[bool | None], tmp_path: Path) -> None:
    gate = compare(measured(answers(list(TRUTHS)), TRUTHS), measured(answers(said), TRUTHS), GateSettings())
    assert not gate.passed and gate.broken > gate.fixed == 0
    with pytest.raises(GateRefused, match="--force"):
        enforce(gate, tmp_path, force=False, log=lambda line: None)
    lines: list[str] = []
    enforce(gate, tmp_path, force=True, log=lines.append)
    assert "WARNING" in lines[0]


@pytest.mark.parametrize("said", [[True] * 80, [False] * 80, [True, False] * 40])
def test_the_gate_rejects_a_critic_that_does_not_distinguish_images(said: list[bool | None]) -> None:
    same = measured(answers(said), TRUTHS)
    (fault,) = compare(same, same, GateSettings()).faults
    assert "does not distinguish wrong from right images" in fault


def test_the_gate_rejects_a_lower_recall_of_either_verdict() -> None:
    old = measured(answers(one_wrong(*range(60, 80))), TRUTHS)
    new = measured(answers(one_wrong(*range(6))), TRUTHS)
    assert new.accuracy.rate > old.accuracy.rate
    (fault,) = compare(old, new, GateSettings()).faults
    assert "right images accepted: 1.000 before, 0.850 after" in fault
    assert compare(old, new, GateSettings(allowed_recall_drop=0.4)).passed


def test_few_rows_show_little() -> None:
    least = needed(GateSettings())
    assert (least, needed(GateSettings(allowed_recall_drop=0.05))) == (19, 38)
    for count, passed in ((least - 2, False), (least, True)):
        truths = [True] * count + [False] * count
        same = measured(answers(list(truths)), truths)
        assert compare(same, same, GateSettings()).passed is passed
    unchanged = agresti_min_interval([True] * 400, [True] * 400)
    assert (unchanged.difference, unchanged.p) == (0.0, 1.0) and -0.01 < unchanged.low < 0 < unchanged.high


def test_changed_rows_are_weighed_against_chance() -> None:
    assert sign_test(0, 0) == sign_test(3, 3) == 1.0
    assert sign_test(5, 0) == sign_test(0, 5) == pytest.approx(2 / 32)


# Questions


def test_another_number_of_items_is_asked_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    right = measured(answers(list(TRUTHS)), TRUTHS)
    stored = {GATE_FILE: compare(right, right, GateSettings())}
    asked: list[int] = []

    def reliability(gate: RegressionGate, *_: Path) -> dict[str, KindReliability]:
        asked.append(gate.settings.gate_items)
        return {"count": reliability_of([(True, True), (False, True)] * (gate.settings.gate_items // 2))}

    monkeypatch.setattr(RegressionGate, "_compared", lambda *_: stored[GATE_FILE])
    monkeypatch.setattr(RegressionGate, "_reliability", reliability)
    for items in (40, 40, 60, 0):
        gate = RegressionGate(GateSettings(gate_items=items), "cpu", lambda line: None)
        stored[GATE_FILE] = gate.check(tmp_path, tmp_path, RowSet(described(2), tmp_path), tmp_path)
    assert asked == [40, 60]
    assert stored[GATE_FILE].reliability["count"].items == 60, "without items the measured ones stay"


def described(count: int) -> list[SftRow]:
    turns = [SftMessage(role="user", content="Describe."), SftMessage(role="assistant", content="A page.")]
    return [SftRow(messages=turns)] * count


def test_the_check_samples_both_verdicts_equally_in_any_file_order(tmp_path: Path) -> None:
    rows = read_rows(rows_file(tmp_path, count=50))
    one_sided = [row for row in rows if truth_of(row)] + [row for row in rows if not truth_of(row)]
    asked = chosen([*described(3), *one_sided, *one_sided], 20, seed=0)
    assert [truth_of(row) for row in asked] == [True, False] * 10, (
        "rows without a verdict and copies take no place"
    )
    assert asked == chosen(list(reversed(one_sided)), 20, seed=0) != chosen(one_sided, 20, seed=1)
    few = [row for row in rows if truth_of(row)][:4] + [row for row in rows if not truth_of(row)]
    assert (
        sum(truth_of(row) is True for row in chosen(few, 20, seed=0)) == 4 and len(chosen(few, 20, 0)) == 20
    )


def test_the_learning_check_samples_both_verdicts_in_any_file_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = read_rows(rows_file(tmp_path, count=50))
    one_sided = [row for row in rows if truth_of(row)] + [row for row in rows if not truth_of(row)]
    seen: list[RowSet] = []
    same = measured(answers(list(TRUTHS)), TRUTHS)

    def compared(gate: RegressionGate, before: Path, after: Path, asked: RowSet, *others: object) -> object:
        seen.append(asked)
        return compare(same, same, gate.settings)

    monkeypatch.setattr(RegressionGate, "_compared", compared)
    gate = RegressionGate(GateSettings(gate_rows=20), "cpu", lambda line: None)
    gate.measure_learned(tmp_path, tmp_path, RowSet(one_sided, tmp_path), tmp_path)
    assert [truth_of(row) for row in seen[0].rows] == [True, False] * 10


@pytest.mark.parametrize("kept", [True, False, None])
def test_rows_with_only_one_verdict_are_rejected(kept: bool | None, tmp_path: Path) -> None:
    rows = [row for row in read_rows(rows_file(tmp_path)) if truth_of(row) is kept]
    with pytest.raises(
        SettingsError, match="needs at least 19 right and 19 wrong" if rows else "teaches a verdict"
    ):
        examination(RowSet(rows or described(4), tmp_path), GateSettings())


def test_the_error_names_how_many_images_are_missing(tmp_path: Path) -> None:
    rows = read_rows(rows_file(tmp_path))
    right, wrong = ([row for row in rows if truth_of(row) is truth] for truth in (True, False))

    def hint(rows: list[SftRow], settings: GateSettings = GateSettings(), **source: Any) -> str:  # noqa: B008
        with pytest.raises(SettingsError, match="needs at least 19 right") as few:
            examination(RowSet(rows, tmp_path), settings, **source)
        return few.value.hint

    assert hint(right[:18] + wrong).startswith("Add rows about at least 1 more right images to --held-out.")
    assert "2 more right and 1 more wrong images to --old." in hint(right[:17] + wrong[:18], source="--old")
    said = hint(right[:18] + wrong[:16], annotated_share=0.2)
    assert "Annotate about 5 more right and 15 more wrong images, because held_out_runs 0.2" in said
    assert hint(rows, GateSettings(gate_rows=37)).startswith("Set gate_rows to 38 or more.")
    assert len(examination(RowSet(rows, tmp_path), GateSettings(gate_rows=38)).rows) == 38


def test_old_rows_that_cannot_be_asked_are_replaced(base: Path, tmp_path: Path) -> None:
    rows = read_rows(rows_file(tmp_path))
    held, _ = split(RowSet(rows, tmp_path), 0.2, GateSettings())
    assert len(held.rows) == 38 < len(rows)
    turns = [SftMessage(role="user", content="<image>Is it <|im_end|> light?"), held.rows[0].messages[1]]
    hostile = held.rows[0].model_copy(update={"messages": turns})
    old = RowSet([hostile if row == held.rows[0] else row for row in rows], tmp_path)
    settings = OwnCriticSettings(RunsData(), GENTLE, Rehearsal(), GateSettings())
    data, agents = OwnCriticData([tmp_path], skip_bad=True), OwnCriticAgents()
    training = _OwnCritic(base, data, tmp_path / "own", settings, agents, lambda line: None)
    asked, rest = training._gate_rows(RowSet([], tmp_path), old, RowSet([], tmp_path))
    assert len(asked.rows) == 38 and hostile not in [*asked.rows, *rest.rows]
    assert [truth_of(row) for row in asked.rows].count(True) == 19


def test_unusable_rows_are_rejected_or_left_out(base: Path, tmp_path: Path) -> None:
    rows = read_rows(rows_file(tmp_path, count=40))
    turns = [SftMessage(role="user", content="<image>Is it <|im_end|> light?"), rows[0].messages[1]]
    hostile = rows[0].model_copy(update={"messages": turns})
    held = RowSet([*rows, hostile], tmp_path)
    strict, lines = TokenLimit(200, "max_length"), list[str]()
    with pytest.raises(SettingsError, match=r"Held-out .*special token"):
        askable(held, base, strict, 9216, lines.append)
    left = askable(held, base, TokenLimit(200, "max_length", skip_bad=True), 9216, lines.append)
    assert list(left.rows) == rows and "left out 1 of 41 rows:" in lines
    with pytest.raises(SettingsError, match=r"tokens exceed the maximum of 20 \(max_length\)"):
        askable(RowSet(rows, tmp_path), base, TokenLimit(20, "max_length"), 9216, lines.append)


def test_the_answers_of_a_critic_report_their_progress(base: Path, tmp_path: Path) -> None:
    rows = RowSet(read_rows(rows_file(tmp_path, count=3)), tmp_path)
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        seen.append((done, total))

    answers = answers_of(base, None, rows, GateSettings(gate_batch=2, gate_tokens=16), "cpu", progress)
    assert len(answers) == 3 and seen == [(0, 3), (2, 3)]


# Old rows


def test_held_out_rows_are_never_trained_on(tmp_path: Path) -> None:
    rows = RowSet(read_rows(rows_file(tmp_path, count=50)), tmp_path)
    loose = GateSettings(allowed_recall_drop=1.0, allowed_drop=1.0)
    held, rest = split(RowSet([*rows.rows, *rows.rows[:3]], tmp_path), 0.25, loose)
    assert len(held.rows) == 13
    assert not {row.images[-1] for row in held.rows} & {row.images[-1] for row in rest.rows}
    turned = split(RowSet(list(reversed(rows.rows)), tmp_path), 0.25, loose)
    assert turned[0] == split(rows, 0.25, loose)[0]
    assert len(split(rows, 0.25, GateSettings())[0].rows) == 2 * needed(GateSettings())


def test_old_rows_fill_up_missing_new_ones(tmp_path: Path) -> None:
    rows = read_rows(rows_file(tmp_path, count=50))
    right, wrong = ([row for row in rows if truth_of(row) is truth] for truth in (True, False))
    assert mix(right[:6], [], 0.5) == right[:6] and mix(right[:6], right[6:] + wrong, 0.0) == right[:6]
    mixed = mix(right[:6] + wrong[:2], right[6:] + wrong[2:], 0.5)
    assert [truth_of(row) for row in mixed].count(True) == 8 == len(mixed) / 2
    assert mixed == mix(right[:6] + wrong[:2], wrong[2:] + right[6:], 0.5)


def test_too_few_rows_or_steps_are_no_training(tmp_path: Path) -> None:
    rows = read_rows(rows_file(tmp_path))
    enough = Rehearsal(least_rows=40, least_steps=10)
    check_rows(rows, enough)
    check_steps(40, GENTLE, enough)
    with pytest.raises(
        SettingsError, match="only 39 rows to fine-tune on, fewer than the minimum of 40"
    ) as few:
        check_rows([*rows[:39], *rows[:39]], enough)
    assert few.value.hint == "Annotate at least 1 more images, or lower the minimum with --set least_rows=39."
    with pytest.raises(SettingsError, match=r"40 rows make only 3 optimizer steps.*--num-train-epochs 4"):
        check_steps(40, GENTLE.model_copy(update={"per_device_train_batch_size": 16}), enough)


# The commands


def test_a_critic_that_got_worse_is_not_published(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    held_out, wrong = rows_file(tmp_path / "held"), rows_file(tmp_path / "wrong", right=False, shift=1)
    command = [
        "train",
        "critic-sft",
        "--init",
        base,
        "--data",
        wrong,
        "--held-out",
        held_out,
        "--out",
        tmp_path / "out",
    ]
    command += [
        "--num-train-epochs",
        8,
        "--per-device-train-batch-size",
        8,
        "--learning-rate",
        3e-3,
        "--set",
        "device=cpu",
        "--set",
        "freeze_vision=false",
    ]
    command += ["--set", "gate_tokens=80", "--set", "gate_items=4"]
    assert call(monkeypatch, *command) == 3
    told = capsys.readouterr()
    assert "worse" in told.err and "--force" in told.err and "| accuracy | 1.000" in told.out
    assert not (tmp_path / "out" / "final").exists()
    assert (tmp_path / "out" / "trained" / "config.json").is_file()
    assert call(monkeypatch, *command, "--force") == 0
    assert (tmp_path / "out" / "final" / "config.json").is_file()
    card = read_card(tmp_path / "out" / "final" / "agent.json")
    gate = json.loads((tmp_path / "out" / "gate.json").read_text())
    assert card is not None and card.role == "critic" and card.gate is not None and not card.gate.passed
    assert card.gate.rows == len(gate["after"]["truths"])
    assert card.gate.accepts_right == gate["after"]["true_recall"]["rate"]
    assert card.gate.rejects_wrong == gate["after"]["false_recall"]["rate"]
    unchecked = read_card(tmp_path / "out" / "trained" / "agent.json")
    assert set(card.reliability) == {"count", "color", "place", "text"}
    assert not any(one.is_reliable for one in card.reliability.values()), "it never answers yes or no"
    plain = card.model_copy(update={"gate": None, "reliability": {}})
    assert unchecked == plain, "the linked file is not changed"
    again = capsys.readouterr().out
    assert "running both critics" not in again, "the same comparison is not made twice"
    assert "asking the new critic" not in again and "cannot judge it" in again, (
        "nor are the items asked twice"
    )


def test_the_check_does_not_use_training_rows(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, other = rows_file(tmp_path / "data"), tmp_path / "other"
    other.mkdir()
    renamed = []
    for number, row in enumerate(read_rows(data)):
        # The same pixels in another file of another name.
        Picture.open(data.parent / row.images[0]).image.save(other / f"{number}.bmp")
        renamed.append(row.model_copy(update={"images": [f"{number}.bmp"]}))
    write_rows(other / "held.json", renamed)
    for held in (data, other / "held.json"):
        command = [
            "train",
            "critic-sft",
            "--init",
            base,
            "--data",
            data,
            "--held-out",
            held,
            "--out",
            tmp_path / "out",
        ]
        assert call(monkeypatch, *command) == 2
        assert "40 of 40 held-out rows are also trained on" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def critic_of(
    base: Path, tmp_path: Path, name: str, rows: list[SftRow], folder: Path, **changes: Any
) -> Path:
    hot = {
        "num_train_epochs": 4,
        "per_device_train_batch_size": 8,
        "learning_rate": 1e-3,
        "freeze_vision": False,
    } | changes
    settings = GENTLE.model_copy(update=hot)
    data = SftData(RowSet(rows, folder))
    return train(base, data, tmp_path / name, settings, log=lambda line: None)


def test_a_critic_with_a_constant_verdict_fails_and_one_step_does_not_train_it(
    base: Path, tmp_path: Path
) -> None:
    taught = read_rows(rows_file(tmp_path / "taught", shift=1))
    folder = tmp_path / "taught"
    held = read_rows(rows_file(tmp_path / "held", count=48))
    # Earlier versions checked only the first of these, which are all correct images.
    lopsided = [row for row in held if truth_of(row)] + [row for row in held if not truth_of(row)]
    settings = GateSettings(gate_rows=44, gate_tokens=80, gate_items=0)
    asked = examination(RowSet(lopsided, tmp_path / "held"), settings)
    answer = SftMessage(role="assistant", content=ACCEPTED)
    always = [row.model_copy(update={"messages": [row.messages[0], answer]}) for row in taught]
    collapsed = critic_of(base, tmp_path, "always true", always, folder)
    quiet = RegressionGate(settings, "cpu", lambda line: None)
    gate = quiet.check(base, collapsed, asked, tmp_path / "gate of the collapsed")
    assert gate.after.says_true.rate == 1.0 and gate.before.accuracy.rate == 1.0
    with pytest.raises(GateRefused, match="does not distinguish wrong from right images"):
        enforce(gate, collapsed, force=False, log=lambda line: None)
    one_step = critic_of(
        base, tmp_path, "one step", taught[:4], folder, num_train_epochs=1, learning_rate=1e-6
    )
    lines: list[str] = []
    said_aloud = RegressionGate(settings, "cpu", lines.append)
    gate = said_aloud.check(base, one_step, asked, tmp_path / "gate")
    learned = said_aloud.measure_learned(base, one_step, asked, tmp_path / "gate")
    assert gate.passed, "it lost nothing"
    assert learned_line(learned) in lines and "not significantly better or worse" in lines[-1]
    assert (tmp_path / "gate" / "learned.json").is_file()


def test_reinforcement_has_its_own_recipe_section(tmp_path: Path) -> None:
    pytest.importorskip("diffusers")
    how = reinforcement_of("tiny")
    assert how.reward.generator.identity.startswith("tinyworld") and how.settings.prompts == 16
    assert how.reward.drawing.draw_batch == 16
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("critic-grpo:\n  generator: fake\n")
    with pytest.raises(SettingsError, match="scorer"):
        reinforcement_of(str(recipe))
    told = "critic-grpo:\n  generator: fake\n  scorer: tinyworld\n"
    recipe.write_text(f"{told}  load_in_4bit: true\n")
    with pytest.raises(SettingsError, match="lora"):
        reinforcement_of(str(recipe))
    recipe.write_text(f"{told}  colour: red\n")
    with pytest.raises(SettingsError, match="colour"):
        reinforcement_of(str(recipe))
    recipe.write_text(f"{told}  turns: 2\n")
    with pytest.raises(SettingsError, match="--turns` was removed"):
        reinforcement_of(str(recipe))


def test_own_critic_uses_the_fine_tuning_recipe(tmp_path: Path) -> None:
    command = typer.main.get_command(cli_train.app).commands["own-critic"]  # type: ignore[attr-defined]
    given = [str(tmp_path), "--config", "tiny", "--out", str(tmp_path / "o"), "--learning-rate", "0.5"]
    values = command.make_context("own-critic", given).params
    assert (
        values["learning_rate"] == 0.5
        and values["per_device_train_batch_size"] == 32
        and values["model"] == "tinyworld:critic"
    )


def test_from_runs_to_a_critic_that_opens(base: Path, tmp_path: Path) -> None:
    for number in range(4):
        folder = made_run(tmp_path / "runs" / f"{number}", [(number, True, None)], prompt=f"page {number}")
        say(folder, 0, number % 2 == 0, note="I looked.")
    lines: list[str] = []
    old = rows_file(tmp_path / "old", count=50)

    settings = OwnCriticSettings(
        RunsData(), GENTLE, Rehearsal(least_rows=3, least_steps=2), GateSettings(gate_tokens=80, gate_items=4)
    )

    def retrain(**files: Any) -> Path:
        data = OwnCriticData([tmp_path / "runs"], **files)
        return train_own_critic(base, data, tmp_path / "own", settings, log=lines.append)

    lone = replace(settings, rehearsal=Rehearsal())
    with pytest.raises(SettingsError, match="only 3 rows to fine-tune on"):
        train_own_critic(base, OwnCriticData([tmp_path / "runs"]), tmp_path / "own", lone, log=lines.append)
    with pytest.raises(SettingsError, match="needs at least 19 right and 19 wrong"):
        retrain()
    with pytest.raises(SettingsError, match="also trained on"):
        retrain(old=old, held_out=old)
    plan = write_plan(Plan(steps=(Step(number=1, prompt="a"),), reasoning="so"))
    asked = {"role": "user", "content": "Plan."}
    planners = tmp_path / "planners.json"
    planners.write_text(json.dumps([{"messages": [asked, {"role": "assistant", "content": plan}]}]))
    for file in ("old", "held_out"):
        with pytest.raises(SettingsError, match="are for train planner-sft, not for train critic-sft"):
            retrain(**{"old": old, file: planners})
    final = retrain(old=old)
    assert final == tmp_path / "own" / "final" and "gate passed" in lines
    assert "4 rows from runs, repeated ones included, 4 old rows" in lines
    card = (final / "README.md").read_text(encoding="utf-8")
    assert "held-out rows: passed" in card and "of 1 held-out annotations" in card
    assert "| wrong images rejected |" in card and "judge it" in card and str(tmp_path) not in card
    assert any(
        line.startswith("learned: not significantly") and "of 1 held-out annotations" in line
        for line in lines
    )
    # It was not trained on this question: without a limit its answer fills the context.
    short = ReplySettings(max_tokens=20)
    critic = Critic(open_chat(f"transformers:{final}", device="cpu"), settings=short)
    assert critic.prompt_set == default_prompt_set()
    assert isinstance(critic.judge(None, page(240), "a light page", "a light page"), Verdict)
    again = retrain(old=old)
    assert again == final and "this training is finished" in lines
