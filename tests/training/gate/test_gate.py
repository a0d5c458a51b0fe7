"""The regression gate does not publish a critic that got worse; and the whole way from runs to a critic."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from support import short_trainings as short
from support.cli_calls import call
from support.made_runs import made_run, say
from support.short_trainings import sft_row
from support.tiny_checkpoint import ACCEPTED, QUESTION, REFUSED, page, taught_checkpoint

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from interleave_thinker import ChatError, Critic, Picture, SettingsError, open_chat
from interleave_thinker.backend.core.prompts.agent_card import read_card
from interleave_thinker.backend.story.agents import critic
from interleave_thinker.cli.train import command as cli_train
from interleave_thinker.cli.train.own_critic import reinforcement_of
from interleave_thinker.training.from_runs.settings import RunsData
from interleave_thinker.training.gate.gate_rows import GateSettings, askable, chosen, examination, needed
from interleave_thinker.training.gate.measures import Answer, JudgedRows, answers_of, measured_verdicts
from interleave_thinker.training.gate.regression_gate import (
    GATE_FILE,
    Gate,
    GateRefused,
    RegressionGate,
    compare,
    enforce,
    learned_line,
)
from interleave_thinker.training.gate.reliability import reliability_of
from interleave_thinker.training.rows.lengths import TokenLimit
from interleave_thinker.training.rows.sft import RowSet, SftRow, truth_of, write_rows
from interleave_thinker.training.stages.own_critic import (
    OwnCriticData,
    OwnCriticSettings,
    Rehearsal,
    check_rows,
    check_steps,
    mix,
    split,
    train_own_critic,
)

GENTLE = short.SFT.model_copy(update={"learning_rate": 1e-7, "freeze_vision": True})
LOOSE = GateSettings(allowed_recall_drop=1.0, allowed_drop=1.0)


@pytest.fixture(scope="session")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A critic that is right about light and dark images."""
    return taught_checkpoint(tmp_path_factory.getbasetemp())


def rows_of(count: int = 40, right: bool = True, shift: int = 0) -> list[SftRow]:
    """Return rows about light and dark images in turn, with right or wrong verdicts."""
    light = [number % 2 == 0 for number in range(count)]
    shades = [(200 if one else 30) + number + shift for number, one in enumerate(light)]
    return [
        sft_row(QUESTION, ACCEPTED if one == right else REFUSED, f"{shade}.png")
        for one, shade in zip(light, shades, strict=True)
    ]


def rows_file(folder: Path, **how: Any) -> Path:
    """Write rows and their images; `shift=1` gives other shades."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = rows_of(**how)
    for row in rows:
        page(int(Path(row.images[0]).stem)).image.save(folder / row.images[0])
    write_rows(folder / "critic_sft.json", rows)
    return folder / "critic_sft.json"


def by_verdict(rows: list[SftRow]) -> tuple[list[SftRow], list[SftRow]]:
    return [row for row in rows if truth_of(row)], [row for row in rows if not truth_of(row)]


# The rule


def answers(said: list[bool | None]) -> list[Answer]:
    return [Answer(one) for one in said]


TRUTHS = [True] * 40 + [False] * 40


def but(said: bool | None, *places: int) -> list[bool | None]:
    """Return right verdicts, except for these rows."""
    return [said if number in places else truth for number, truth in enumerate(TRUTHS)]


def compared(old: list[bool | None], new: list[bool | None], **settings: float) -> Gate:
    before, after = (measured_verdicts(answers(said), TRUTHS) for said in (old, new))
    return compare(before, after, GateSettings(**settings))


def test_equal_critics_pass() -> None:
    gate = compared(but(True, 78, 79), but(True, 78, 79))
    found = (gate.after.accuracy.rate, gate.after.true_recall.rate, gate.after.false_recall.rate)
    assert gate.passed and found == (0.975, 1.0, 0.95)


@pytest.mark.parametrize(
    "said", [[True] * 80, [False] * 80, [None] * 80, but(True, 40, 41, 42), but(False, 1, 2, 3)]
)
def test_the_gate_rejects_a_worse_critic(said: list[bool | None], tmp_path: Path) -> None:
    gate = compared(list(TRUTHS), said)
    assert not gate.passed and gate.broken > gate.fixed == 0
    with pytest.raises(GateRefused, match="--force"):
        enforce(gate, tmp_path, force=False, log=short.quiet)
    lines: list[str] = []
    enforce(gate, tmp_path, force=True, log=lines.append)
    assert "WARNING" in lines[0]


@pytest.mark.parametrize("said", [[True] * 80, [False] * 80, [True, False] * 40])
def test_the_gate_rejects_a_critic_that_does_not_distinguish_images(said: list[bool | None]) -> None:
    (fault,) = compared(said, said).faults
    assert "does not distinguish wrong from right images" in fault


def test_an_unreadable_answer_is_wrong_but_no_rejection_of_a_right_image() -> None:
    mute = measured_verdicts(answers(but(None, *range(20))), TRUTHS)
    assert mute.true_recall.rate == 0.5 and mute.right_refused.rate == 0.0 and mute.read.rate == 0.75
    refusing = measured_verdicts(answers(but(False, *range(20))), TRUTHS)
    assert refusing.right_refused.rate == 0.5 and refusing.read.rate == 1.0
    # 20 of 40 right and 20 of 40 wrong images rejected are no distinction; 0 of 40 right ones are.
    half = [*range(20), *range(40, 60)]
    assert compared(but(None, *half), but(None, *half)).passed
    turned = [not truth if number in half else truth for number, truth in enumerate(TRUTHS)]
    assert not compared(list(turned), list(turned)).passed


def test_the_gate_rejects_a_lower_recall_of_either_verdict() -> None:
    old, new = but(True, *range(60, 80)), but(False, *range(6))
    gate = compared(old, new)
    assert gate.after.accuracy.rate > gate.before.accuracy.rate
    (fault,) = gate.faults
    assert "right images accepted: 1.000 before, 0.850 after" in fault
    assert compared(old, new, allowed_recall_drop=0.4).passed


def test_few_rows_show_little() -> None:
    least = needed(GateSettings())
    assert (least, needed(GateSettings(allowed_recall_drop=0.05))) == (19, 38)
    for count, passed in ((least - 2, False), (least, True)):
        truths = [True] * count + [False] * count
        same = measured_verdicts(answers(list(truths)), truths)
        assert compare(same, same, GateSettings()).passed is passed


# Questions


def test_of_rows_with_one_question_only_one_counts() -> None:
    row = rows_of(1)[0]
    other = sft_row(QUESTION, REFUSED, *row.images)
    assert row != other
    for rows in ([row, other], [other, row], [row, other, row]):
        assert len(chosen(rows, 20, 0)) == 1, "also with different answers"
    assert len(chosen([row, sft_row(QUESTION, ACCEPTED, "another.png")], 20, 0)) == 2
    assert len(chosen([row, sft_row("Is it dark?", ACCEPTED, *row.images)], 20, 0)) == 2


def test_the_check_samples_both_verdicts_equally_in_any_file_order() -> None:
    right, wrong = by_verdict(rows_of(50))
    mute = sft_row("Describe.", "A page.")
    asked = chosen([mute, *right, *wrong], 20, seed=0)
    assert [truth_of(row) for row in asked] == [True, False] * 10, "rows without a verdict take no place"
    assert asked == chosen([*wrong[::-1], *right[::-1]], 20, seed=0) != chosen(right + wrong, 20, seed=1)
    few = chosen(right[:4] + wrong, 20, seed=0)
    assert [truth_of(row) for row in few].count(True) == 4 and len(few) == 20


def test_too_few_rows_of_a_verdict_are_an_error_that_names_how_many_are_missing() -> None:
    right, wrong = by_verdict(rows_of())

    def hint(rows: list[SftRow], settings: GateSettings | None = None, **source: Any) -> str:
        with pytest.raises(SettingsError, match="needs at least 19 right and 19 wrong") as few:
            examination(RowSet(rows, Path()), settings or GateSettings(), **source)
        return few.value.hint

    assert hint(right[:18] + wrong).startswith(
        "Add rows about at least 1 more right images to --held-out, or"
    )
    assert "2 more right and 1 more wrong images to --old, or" in hint(
        right[:17] + wrong[:18], source="--old"
    )
    said = hint(right[:18] + wrong[:16], annotated_share=0.2)
    assert "Annotate about 5 more right and 15 more wrong images, because held_out_runs 0.2" in said
    assert hint(right + wrong, GateSettings(gate_rows=37)).startswith("Set gate_rows to 38 or more.")
    assert len(examination(RowSet(right + wrong, Path()), GateSettings(gate_rows=38)).rows) == 38
    with pytest.raises(SettingsError, match="teaches a verdict"):
        examination(RowSet([sft_row("Describe.", "A page.")], Path()), GateSettings())


def test_unusable_rows_are_rejected_or_left_out(taught: Path, tmp_path: Path) -> None:
    rows_file(tmp_path)
    rows = rows_of()
    held = RowSet([*rows, sft_row("Is it <|im_end|> light?", ACCEPTED, *rows[0].images)], tmp_path)
    lines: list[str] = []
    with pytest.raises(SettingsError, match=r"Held-out .*special token"):
        askable(held, taught, TokenLimit(200, "max_length"), 9216, lines.append)
    left = askable(held, taught, TokenLimit(200, "max_length", skip_bad=True), 9216, lines.append)
    assert list(left.rows) == rows and "left out 1 of 41 rows:" in lines
    with pytest.raises(SettingsError, match=r"tokens exceed the maximum of 20 \(max_length\)"):
        askable(RowSet(rows, tmp_path), taught, TokenLimit(20, "max_length"), 9216, lines.append)


def test_the_answers_of_a_critic_report_their_progress(taught: Path, tmp_path: Path) -> None:
    rows_file(tmp_path, count=3)
    seen: list[tuple[int, int]] = []
    critic = Critic(open_chat(f"transformers:{taught}", device="cpu"))
    rows = RowSet(rows_of(3), tmp_path)
    said = answers_of(critic, rows, 2, lambda *one: seen.append(one))
    found = JudgedRows("a critic", rows, said).measured
    assert found.accuracy.rate == found.precision.rate == 1.0 and seen == [(0, 3), (2, 3)]
    assert found.auc and found.auc.auc == 1.0


def test_a_batch_is_halved_when_memory_runs_out(taught: Path, tmp_path: Path) -> None:
    rows_file(tmp_path, count=12)
    chat, sizes, lines = open_chat(f"transformers:{taught}", device="cpu"), [], []
    together = chat.reply_together

    def short_of_memory(messages: Any, *rest: Any) -> Any:
        sizes.append(len(messages))
        if len(messages) > 3:
            raise ChatError("the model failed") from RuntimeError("CUDA out of memory.")
        return together(messages, *rest)

    chat.reply_together = short_of_memory  # type: ignore[method-assign]
    said = answers_of(Critic(chat), RowSet(rows_of(12), tmp_path), 8, log=lines.append)
    assert [one.success for one in said] == [truth_of(row) for row in rows_of(12)]
    assert sizes == [8, 4, 2, 2, 2, 2, 2, 2] and lines[-1].endswith("4 rows in a batch: continuing with 2")


# The comparison of two folders


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """Answers of two critics (`said`, right ones if empty) instead of models; what was asked is recorded."""
    seen: dict[str, list[Any]] = {"rows": [], "items": [], "said": [], "critics": []}

    def answer(critic: Any, rows: RowSet, *others: Any) -> list[Answer]:
        seen["rows"].append(rows.rows)
        return answers(seen["said"].pop(0) if seen["said"] else [truth_of(row) for row in rows.rows])

    def reliability(gate: RegressionGate, *_: Path) -> Any:
        seen["items"].append(gate.settings.gate_items)
        return {"count": reliability_of([(True, True), (False, True)] * (gate.settings.gate_items // 2))}

    module = "interleave_thinker.training.gate.regression_gate"
    monkeypatch.setattr(f"{module}.answers_of", answer)
    monkeypatch.setattr(f"{module}.checkpoint_digest", str)
    monkeypatch.setattr(RegressionGate, "_reliability", reliability)
    monkeypatch.setattr(RegressionGate, "_critic", lambda gate, *one: seen["critics"].append(one))
    return seen


def test_nothing_is_asked_twice(asked: dict[str, list[Any]], tmp_path: Path) -> None:
    rows = RowSet(rows_of(), tmp_path)
    for items in (40, 40, 60, 0):
        gate = RegressionGate(GateSettings(gate_items=items), short.SFT, short.quiet)
        found = gate.check(tmp_path / "old", tmp_path / "new", rows, tmp_path)
        assert found.passed and found == Gate.model_validate_json((tmp_path / GATE_FILE).read_text())
    assert asked["items"] == [40, 60] and len(asked["rows"]) == 2
    assert found.reliability["count"].items == 60, "without items the measured ones stay"
    RegressionGate(GateSettings(), short.SFT, short.quiet).check(tmp_path, tmp_path / "other", rows, tmp_path)
    assert len(asked["rows"]) == 4
    for changed in ({"adapter": "adapter"}, {"adapter": "adapter", "load_in_4bit": True}):
        continued = RegressionGate(GateSettings(), short.SFT.model_copy(update=changed), short.quiet)
        continued.check(tmp_path, tmp_path / "other", rows, tmp_path)
    assert asked["critics"][4:] == [(tmp_path, "adapter"), (tmp_path / "other", None)] * 2


def test_what_was_learned_is_measured_on_both_verdicts(asked: dict[str, list[Any]], tmp_path: Path) -> None:
    right, wrong = by_verdict(rows_of(50))
    lines: list[str] = []
    gate = RegressionGate(GateSettings(gate_rows=20), short.SFT, lines.append)
    for said, verdict in (
        ([], "not significantly"),
        ([[True] * 20], "better"),
        ([[True, False] * 10, [True] * 20], "worse"),
    ):
        asked["said"] = list(said)
        place = tmp_path / verdict
        place.mkdir()
        learned = gate.measure_learned(tmp_path, tmp_path, RowSet(right + wrong, tmp_path), place)
        assert learned_line(learned) == lines[-1] and lines[-1].startswith(f"learned: {verdict}")
        assert (place / "learned.json").is_file()
    assert [truth_of(row) for row in asked["rows"][0]] == [True, False] * 10


# Old rows


def test_held_out_rows_are_never_trained_on(tmp_path: Path) -> None:
    rows_file(tmp_path, count=50)
    rows = RowSet(rows_of(50), tmp_path)
    held, rest = split(RowSet([*rows.rows, *rows.rows[:3]], tmp_path), 0.25, LOOSE)
    assert len(held.rows) == 13
    assert not {row.images[-1] for row in held.rows} & {row.images[-1] for row in rest.rows}
    assert split(RowSet(rows.rows[::-1], tmp_path), 0.25, LOOSE)[0] == split(rows, 0.25, LOOSE)[0]
    assert len(split(rows, 0.25, GateSettings())[0].rows) == 2 * needed(GateSettings())
    judged = {Picture.open(tmp_path / row.images[-1]).digest for row in rows.rows[:3]}
    assert rows.judging(judged) == [0, 1, 2], "rows about images that GRPO trains on"


def test_old_rows_fill_up_missing_new_ones() -> None:
    right, wrong = by_verdict(rows_of(50))
    assert mix(right[:6], [], 0.5) == right[:6] and mix(right[:6], right[6:] + wrong, 0.0) == right[:6]
    mixed = mix(right[:6] + wrong[:2], right[6:] + wrong[2:], 0.5)
    assert [truth_of(row) for row in mixed].count(True) == 8 == len(mixed) / 2
    assert mixed == mix(right[:6] + wrong[:2], wrong[2:] + right[6:], 0.5)


def test_too_few_rows_or_steps_are_no_training() -> None:
    rows, enough = rows_of(), Rehearsal(least_rows=40, least_steps=10)
    check_rows(rows, enough)
    check_steps(40, GENTLE, enough)
    with pytest.raises(SettingsError, match="only 39 rows to fine-tune on, fewer than the minimum") as few:
        check_rows([*rows[:39], *rows[:39]], enough)
    assert few.value.hint == "Annotate at least 1 more images, or lower the minimum with --set least_rows=39."
    with pytest.raises(SettingsError, match=r"40 rows make only 3 optimizer steps.*--num-train-epochs 4"):
        check_steps(40, GENTLE.model_copy(update={"per_device_train_batch_size": 16}), enough)


# The commands


def test_a_worse_critic_is_not_kept(taught: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(critic, "THINKING_TOKENS", 4)  # it never answers yes or no
    held_out = rows_file(tmp_path / "held")
    wrong = rows_file(tmp_path / "wrong", right=False, shift=1)
    out = tmp_path / "out"
    command = ["train", "critic-sft", "--init", taught, "--data", wrong, "--held-out", held_out, "--out", out]
    command += ["--num-train-epochs", 8, "--per-device-train-batch-size", 8, "--learning-rate", 3e-3]
    for one in (
        "device=cpu",
        "freeze_vision=false",
        "tensorboard=false",
        "gate_tokens=80",
        "gate_items=1",
        "gate_batch=40",
    ):
        command += ["--set", one]
    refused = call(*command)
    assert refused.exit_code == 3, refused.output
    assert "worse" in refused.stderr and "--force" in refused.stderr
    assert "| accuracy | 1.000" in refused.output and not (out / "final").exists()
    forced = call(*command, "--force")
    assert forced.exit_code == 0, forced.output
    assert "running both critics" not in forced.output, "the same comparison is not made twice"
    card = read_card(out / "final" / "agent.json")
    after = json.loads((out / "gate.json").read_text())["after"]
    assert card is not None and card.role == "critic" and card.gate is not None and not card.gate.passed
    assert (card.gate.rows, card.gate.rejects_wrong) == (len(after["truths"]), after["false_recall"]["rate"])
    assert set(card.reliability) == {"count", "color", "place", "text"}
    plain = card.model_copy(update={"gate": None, "reliability": {}})
    assert read_card(out / "trained" / "agent.json") == plain, "the linked file is not changed"


def test_the_check_does_not_use_training_rows(taught: Path, tmp_path: Path) -> None:
    data, other = rows_file(tmp_path / "data"), tmp_path / "other"
    other.mkdir()
    renamed = []
    for number, row in enumerate(rows_of()):
        # The same pixels in another file of another name.
        Picture.open(data.parent / row.images[0]).image.save(other / f"{number}.bmp")
        renamed.append(row.model_copy(update={"images": [f"{number}.bmp"]}))
    write_rows(other / "held.json", renamed)
    out = tmp_path / "out"
    for held in (data, other / "held.json"):
        said = call(
            *("train", "critic-sft", "--init", taught, "--data", data, "--held-out", held, "--out", out)
        )
        assert said.exit_code == 2 and "40 of 40 held-out rows are also trained on" in said.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("  generator: fake\n", "scorer"),
        ("  generator: fake\n  scorer: tinyworld\n  load_in_4bit: true\n", "lora"),
        ("  generator: fake\n  scorer: tinyworld\n  beta: -1\n", "critic-grpo, beta: .*at least"),
        ("  generator: fake\n  scorer: tinyworld\n  colour: red\n", "colour"),
        ("  generator: fake\n  scorer: tinyworld\n  turns: 2\n", "--turns` was removed"),
    ],
)
def test_an_unusable_reinforcement_is_an_early_error(text: str, said: str, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(f"critic-grpo:\n{text}")
    with pytest.raises(SettingsError, match=said):
        reinforcement_of(str(recipe))


def test_own_critic_uses_the_recipes_of_both_stages(tmp_path: Path) -> None:
    pytest.importorskip("diffusers")
    how = reinforcement_of("tiny")
    assert how.reward.generator.identity.startswith("tinyworld") and how.settings.prompts == 16
    assert how.reward.drawing.draw_batch == 16
    command = typer.main.get_command(cli_train.app).commands["own-critic"]  # type: ignore[attr-defined]
    given = [str(tmp_path), "--config", "tiny", "--out", str(tmp_path / "o"), "--learning-rate", "0.5"]
    values = command.make_context("own-critic", given).params
    assert values["learning_rate"] == 0.5 and values["model"] == "tinyworld:critic"


def test_from_runs_to_a_published_critic(asked: dict[str, list[Any]], base: Path, tmp_path: Path) -> None:
    for number in range(4):
        run = made_run(tmp_path / "runs" / f"{number}", [(number, True, None)], prompt=f"page {number}")
        say(run, 0, number % 2 == 0, note="I looked.")
    lines: list[str] = []
    old = rows_file(tmp_path / "old", count=50)
    # A row that cannot be asked is replaced by another one.
    write_rows(old, [*rows_of(50), sft_row("Is it <|im_end|> light?", ACCEPTED, "200.png")])
    rehearsal = Rehearsal(least_rows=3, least_steps=2)
    settings = OwnCriticSettings(RunsData(), GENTLE, rehearsal, GateSettings(gate_items=4))

    def retrain(given: OwnCriticSettings = settings, **files: Any) -> Path:
        data = OwnCriticData([tmp_path / "runs"], skip_bad=True, **files)
        return train_own_critic(base, data, tmp_path / "own", given, log=lines.append)

    with pytest.raises(SettingsError, match="only 3 rows to fine-tune on"):
        retrain(replace(settings, rehearsal=Rehearsal()))
    with pytest.raises(SettingsError, match="needs at least 19 right and 19 wrong"):
        retrain()
    with pytest.raises(SettingsError, match="also trained on"):
        retrain(old=old, held_out=old)
    final = retrain(old=old)
    assert final == tmp_path / "own" / "final" and "gate passed" in lines
    assert "4 rows from runs, repeated ones included, 4 old rows" in lines
    card = (final / "README.md").read_text(encoding="utf-8")
    assert "held-out rows: passed" in card and "of 1 held-out annotations" in card
    assert len(asked["rows"][0]) == 38 and len(asked["rows"]) == 4
    assert "| wrong images rejected |" in card and "judges it" in card and str(tmp_path) not in card
    assert any(line.startswith("learned: not significantly") for line in lines)
    assert retrain(old=old) == final and "this training is finished" in lines
