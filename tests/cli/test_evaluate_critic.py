"""`evaluate critic`: verdicts on labelled pairs and rows, the table of kinds, its place in the agent card."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli_calls import call
from support.tiny_checkpoint import ACCEPTED, REFUSED, build_checkpoint, page

from interleave_thinker.backend.core.prompts.agent_card import CARD, read_card
from interleave_thinker.backend.story.agents import critic
from interleave_thinker.training.gate.reliability import made_items


def scripted(folder: Path, answers: list[str]) -> str:
    """Return the name of a critic that gives these answers in order."""
    path = folder / "answers.json"
    path.write_text(json.dumps(answers))
    return f"scripted:{path}"


def test_the_table_tells_what_a_critic_cannot_judge(tmp_path: Path) -> None:
    answers = ["Yes" if one.truth or one.item.kind == "count" else "No" for one in made_items(20)]
    done = call("evaluate", "critic", "--critic", scripted(tmp_path, answers), "--made", 20)
    assert done.exit_code == 0, done.output
    rows = {line.split("|")[1].strip(): line for line in done.output.splitlines() if line.startswith("| ")}
    assert "cannot judge it" in rows["count"] and "1.000 | 0.000" in rows["count"]
    assert all("| judges it |" in rows[kind] for kind in ("color", "place", "text"))


def test_a_saved_result_is_in_the_agent_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(critic, "THINKING_TOKENS", 4)
    folder = build_checkpoint(tmp_path / "critic")
    done = call("evaluate", "critic", "--critic", f"transformers:{folder}", "--made", 1, "--save")
    assert done.exit_code == 0, done.output
    card = read_card(folder / CARD)
    assert card is not None and set(card.reliability) == {"count", "color", "place", "text"}
    assert not any(one.is_reliable for one in card.reliability.values()), "it never answers yes or no"


def test_without_a_folder_nothing_can_be_saved(tmp_path: Path) -> None:
    done = call("evaluate", "critic", "--critic", scripted(tmp_path, ["Yes"]), "--made", 1, "--save")
    assert done.exit_code != 0 and "--save needs a critic with a folder" in done.output


def test_verdicts_on_labelled_pairs_are_compared_with_a_baseline(tmp_path: Path) -> None:
    lines = ["before,after,prompt,ok,kind"]
    for number in range(4):
        page(40 * number).image.save(tmp_path / f"{number}.png")
        lines.append(
            f",{number}.png,page {number},{'yes' if number < 2 else 'no'},{'light' if number % 2 else ''}"
        )
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    for name, answers in (("old", [ACCEPTED] * 4), ("new", [ACCEPTED, "no idea", REFUSED, REFUSED])):
        (tmp_path / name).mkdir()
        scripted(tmp_path / name, answers)
    old, new = (f"scripted:{tmp_path / name / 'answers.json'}" for name in ("old", "new"))
    asked = ("evaluate", "critic", "--data", tmp_path / "labels.csv", "--critic", new)
    done = call(*asked, "--baseline", old, "--out", tmp_path / "page")
    assert done.exit_code == 0, done.output
    rows = {cells[1].strip(): cells for line in done.output.splitlines() if len(cells := line.split("|")) > 2}
    assert [one.split()[0] for one in rows["accuracy"][2:4]] == ["0.500", "0.750"]
    assert [one.split()[0] for one in rows["accepted images that are right"][2:4]] == ["0.500", "1.000"]
    assert [one.split()[0] for one in rows["answers with a verdict"][2:4]] == ["1.000", "0.750"]
    assert [one.split()[0] for one in rows["light"][2:4]] == ["0.500", "0.500"]
    assert "replies without P(success)" in rows["AUC of P(success)"][2]
    html = (tmp_path / "page" / "index.html").read_text()
    assert html.count("<img") == 8 and "no readable verdict" in html and "page 3" in html
    assert len(list((tmp_path / "page").glob("*.png"))) == 8
    alone = call("evaluate", "critic", "--critic", new, "--baseline", old)
    assert alone.exit_code == 2 and "--data" in alone.output
