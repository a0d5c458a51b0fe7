"""The regression gate: a critic that got worse is kept aside; and the whole way from runs to a critic that Load Agent takes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from made_runs import made_run, say
from tiny_checkpoint import ACCEPTED, QUESTION, REFUSED, page, taught_checkpoint

pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')

from interleave_thinker.backend.agents import Critic
from interleave_thinker.backend.chat import open_chat
from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.backend.prompts import default_prompt_set
from interleave_thinker.backend.types import Verdict
from interleave_thinker.cli import main
from interleave_thinker.cli import train as cli_train
from interleave_thinker.cli.own_critic import reinforcement_of
from interleave_thinker.training.data import SftMessage, SftRow, read_rows, write_rows
from interleave_thinker.training.gate import (
    GateRefused,
    GateSettings,
    check_gate,
    compare,
    enforce,
    measured,
    truths_of,
)
from interleave_thinker.training.own_critic import Rehearsal, mix, split, train_own_critic
from interleave_thinker.training.run_filter import RunsData
from interleave_thinker.training.sft import SftTraining
from interleave_thinker.training.statistics import sign_test

GENTLE = SftTraining(epochs=1, batch=4, rate=1e-7, warm_up=0, device="cpu", samples=0, tensorboard=False)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return taught_checkpoint(tmp_path_factory.getbasetemp())


def rows_file(folder: Path, right: bool = True, count: int = 24) -> Path:
    """Rows of light and dark pages with the right verdicts or with the wrong ones."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(count):
        light = number % 2 == 0
        grey = (200 if light else 30) + number
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


TRUTHS = [True] * 10 + [False] * 10


def test_equal_critics_pass() -> None:
    old = measured(answers([*TRUTHS[:-2], True, True]), TRUTHS)
    assert compare(old, old, GateSettings()).passed
    assert (old.accuracy.rate, old.true_recall.rate, old.false_recall.rate) == (0.9, 1.0, 0.8)


@pytest.mark.parametrize("said", [[True] * 20, [False] * 20, [None] * 20, [*TRUTHS[:-1], True]])
def test_a_worse_critic_is_refused(said: list[bool | None], tmp_path: Path) -> None:
    gate = compare(measured(answers(list(TRUTHS)), TRUTHS), measured(answers(said), TRUTHS), GateSettings())
    assert not gate.passed and gate.broken > gate.fixed == 0
    with pytest.raises(GateRefused, match="--force"):
        enforce(gate, tmp_path, force=False, log=lambda line: None)
    lines: list[str] = []
    enforce(gate, tmp_path, force=True, log=lines.append)
    assert "WARNING" in lines[0]


def test_one_recall_may_not_pay_for_the_other() -> None:
    old = measured(answers([*TRUTHS[:-4], True, True, True, True]), TRUTHS)
    new = measured(answers([False, False, *TRUTHS[2:]]), TRUTHS)
    assert new.accuracy.rate > old.accuracy.rate
    (fault,) = compare(old, new, GateSettings()).faults
    assert "recall of right images fell from 1.000 to 0.800" in fault
    assert compare(old, new, GateSettings(allowed_recall_drop=0.2)).passed


def test_changed_rows_are_weighed_against_chance() -> None:
    assert sign_test(0, 0) == sign_test(3, 3) == 1.0
    assert sign_test(5, 0) == sign_test(0, 5) == pytest.approx(2 / 32)


def test_rows_without_a_verdict_are_not_asked() -> None:
    turns = [SftMessage(role="user", content="Describe."), SftMessage(role="assistant", content="A page.")]
    with pytest.raises(SettingsError, match="verdict"):
        truths_of([SftRow(messages=turns)])


def test_rows_of_one_kind_are_warned_of(base: Path, tmp_path: Path) -> None:
    rows = read_rows(rows_file(tmp_path))
    turns = [SftMessage(role="user", content="Describe."), SftMessage(role="assistant", content="A page.")]
    lines: list[str] = []
    gate = check_gate(
        base,
        base,
        [*[SftRow(messages=turns)] * 4, *rows[:4:2]],
        tmp_path,
        tmp_path / "out",
        GateSettings(gate_rows=2, gate_tokens=80),
        "cpu",
        lines.append,
    )
    assert gate.before.accuracy.n == 2, "rows without a verdict take no place"
    assert any("all 2 rows are about right images" in line for line in lines)


# Old rows


def test_held_out_rows_are_never_trained_on(tmp_path: Path) -> None:
    rows = read_rows(rows_file(tmp_path))
    held, rest = split([*rows, *rows[:3]], 0.25, 100)
    assert len(held) == 7 and not {row.images[-1] for row in held} & {row.images[-1] for row in rest}
    assert split(list(reversed(rows)), 0.25, 100) == split(rows, 0.25, 100)
    assert len(mix(rows[:6], rows[6:], 0.5)) == 12 and mix(rows[:6], rows[6:], 0.0) == rows[:6]
    assert len(mix(rows[:6], rows[6:], 0.9)) == 24


# The commands


def test_a_critic_that_got_worse_is_not_published(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    held_out, wrong = rows_file(tmp_path / "held"), rows_file(tmp_path / "wrong", right=False)
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
        "--epochs",
        8,
        "--batch",
        8,
        "--rate",
        3e-3,
        "--device",
        "cpu",
        "--samples",
        0,
        "--no-freeze-vision",
    ]
    command += ["--gate-tokens", 80]
    assert call(monkeypatch, *command) == 3
    told = capsys.readouterr()
    assert "worse" in told.err and "--force" in told.err and "| right verdicts | 1.000" in told.out
    assert not (tmp_path / "out" / "final").exists()
    assert (tmp_path / "out" / "trained" / "config.json").is_file()
    assert call(monkeypatch, *command, "--force") == 0
    assert (tmp_path / "out" / "final" / "config.json").is_file()
    assert "asking the critics" not in capsys.readouterr().out, "the same comparison is not made twice"


def test_reinforcement_is_a_recipes_own_section(tmp_path: Path) -> None:
    pytest.importorskip("diffusers")
    how = reinforcement_of("tiny")
    assert how.generator.identity.startswith("tinyworld") and how.settings.prompts == 16
    assert how.drawing.draw_batch == 16
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("critic-grpo:\n  generator: painted\n")
    with pytest.raises(SettingsError, match="scorer"):
        reinforcement_of(str(recipe))
    told = "critic-grpo:\n  generator: painted\n  scorer: tinyworld\n"
    recipe.write_text(f"{told}  quantization: 4bit\n")
    with pytest.raises(SettingsError, match="lora"):
        reinforcement_of(str(recipe))
    recipe.write_text(f"{told}  colour: red\n")
    with pytest.raises(SettingsError, match="colour"):
        reinforcement_of(str(recipe))


def test_own_critic_takes_the_recipe_of_fine_tuning(tmp_path: Path) -> None:
    command = typer.main.get_command(cli_train.app).commands["own-critic"]  # type: ignore[attr-defined]
    given = [str(tmp_path), "--config", "tiny", "--out", str(tmp_path / "o"), "--rate", "0.5"]
    values = command.make_context("own-critic", given).params
    assert values["rate"] == 0.5 and values["half"] == "fp16" and values["model"] == "tinyworld:critic"


def test_from_runs_to_a_critic_that_opens(base: Path, tmp_path: Path) -> None:
    for number in range(4):
        folder = made_run(tmp_path / "runs" / f"{number}", [(number, True, None)], prompt=f"page {number}")
        say(folder, 0, number % 2 == 0, note="I looked.")
    lines: list[str] = []
    old = rows_file(tmp_path / "old")

    def retrain(**changes: Any) -> Path:
        return train_own_critic(
            [tmp_path / "runs"],
            base,
            tmp_path / "own",
            RunsData(),
            GENTLE,
            Rehearsal(),
            GateSettings(gate_tokens=80),
            log=lines.append,
            **changes,
        )

    with pytest.raises(SettingsError, match="--held-out"):
        retrain()
    final = retrain(old=old)
    assert final == tmp_path / "own" / "final" and "gate passed" in lines
    assert "4 rows from runs, 4 old ones" in lines
    critic = Critic(open_chat(f"transformers:{final}", device="cpu"))
    assert critic.prompt_set == default_prompt_set()
    assert isinstance(critic.judge(None, page(240), "a light page", "a light page"), Verdict)
    again = retrain(old=old)
    assert again == final and "this training is finished" in lines
