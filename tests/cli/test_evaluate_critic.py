"""`evaluate critic`: the table of kinds, and its place in the agent card."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from support.cli_calls import call
from support.tiny_checkpoint import taught_checkpoint

from interleave_thinker.backend.core.prompts.agent_card import CARD, read_card
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


def test_a_saved_result_is_in_the_card_of_the_checkpoint(tmp_path: Path, tmp_path_factory) -> None:
    folder = shutil.copytree(taught_checkpoint(tmp_path_factory.getbasetemp()), tmp_path / "critic")
    done = call("evaluate", "critic", "--critic", f"transformers:{folder}", "--made", 2, "--save")
    assert done.exit_code == 0, done.output
    card = read_card(folder / CARD)
    assert card is not None and set(card.reliability) == {"count", "color", "place", "text"}
    assert not any(one.is_reliable for one in card.reliability.values()), "it never answers yes or no"


def test_without_a_folder_nothing_can_be_saved(tmp_path: Path) -> None:
    done = call("evaluate", "critic", "--critic", scripted(tmp_path, ["Yes"]), "--made", 1, "--save")
    assert done.exit_code != 0 and "--save needs a critic with a folder" in done.output
