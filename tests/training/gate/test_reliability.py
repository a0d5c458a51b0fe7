"""The reliability of a critic by kind of question: made items, intervals, the agent card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.made_runs import run_of

from interleave_thinker import Picture, SettingsError
from interleave_thinker.backend.core.prompts.agent_card import CARD, AgentCard, MeasuredStrictness, read_card
from interleave_thinker.backend.core.types import Attempt, CheckedItem, ChecklistItem, Verdict
from interleave_thinker.backend.output.feedback_log import Feedback, ItemFeedback, record_feedback
from interleave_thinker.training.gate.reliability import (
    answered_items,
    as_lines,
    made_items,
    measure_reliability,
    reliability_of,
    store_reliability,
)


class Knowing:
    """Knows the truth of the made items, but says yes to all of kind `blind` and nothing about `mute`."""

    def __init__(self, blind: str = "", mute: str = "") -> None:
        self.blind, self.mute = blind, mute
        self.truths = {(one.after.digest, one.item.text): one.truth for one in made_items(40)}

    def check(
        self, before: Picture | None, after: Picture, original_prompt: str, items: Sequence[ChecklistItem]
    ) -> tuple[CheckedItem, ...]:
        item = items[0]
        if item.kind == self.mute:
            return (CheckedItem(**item.model_dump()),)
        yes = item.kind == self.blind or self.truths[after.digest, item.text]
        # A present card may call the kind unreliable; the probability counts.
        return (CheckedItem(**item.model_dump(), probability=0.9 if yes else 0.1, passed=None),)


def test_made_items_are_balanced_repeatable_and_different() -> None:
    items = made_items(40)
    assert Counter((one.item.kind, one.truth) for one in items) == {
        (kind, truth): 20 for kind in ("count", "color", "place", "text") for truth in (True, False)
    }
    assert items == made_items(40) != made_items(40, seed=1)


def test_only_kinds_above_chance_are_reliable() -> None:
    found = measure_reliability(Knowing(blind="count", mute="text").check, made_items(40))
    assert {kind: one.is_reliable for kind, one in found.items()} == {
        "color": True,
        "count": False,
        "place": True,
        "text": False,
    }
    assert (found["count"].yes_of_true, found["count"].no_of_false, found["count"].accuracy) == (
        1.0,
        0.0,
        0.5,
    )
    assert found["text"].accuracy == 0.0, "an item without an answer is answered wrongly"
    assert "| count | 40 | 1.000 | 0.000 | 0.500, 0.419 | cannot judge it |" in as_lines(found)


def test_few_items_are_not_enough_to_trust_a_kind() -> None:
    """One hit in each class may be luck."""
    assert not reliability_of([(True, True), (False, True)]).is_reliable
    assert not reliability_of([(True, True)] * 50).is_reliable, "without false items nothing is known"
    assert any("WARNING" in line for line in as_lines({"color": reliability_of([(True, True)] * 50)}))


def test_a_result_is_stored_next_to_what_the_card_has(tmp_path: Path) -> None:
    gate = MeasuredStrictness(rows=9, accuracy=0.9, accepts_right=0.9, rejects_wrong=0.9, passed=True)
    old = reliability_of([(True, True), (False, True)] * 40)
    AgentCard(role="critic", gate=gate, reliability={"anatomy": old}).save(tmp_path)
    found = measure_reliability(Knowing().check, made_items(20))
    store_reliability(tmp_path, found)
    card = read_card(tmp_path / CARD)
    assert card is not None and card.gate == gate and card.reliability == {"anatomy": old, **found}


def test_the_card_of_a_step_of_a_training_keeps_what_its_run_knows(tmp_path: Path) -> None:
    AgentCard(role="critic", image_pixels=65_536).save(tmp_path)
    step = tmp_path / "steps" / "checkpoint-10"
    step.mkdir(parents=True)
    found = {"count": reliability_of([(True, True), (False, True)] * 40)}
    store_reliability(step, found)
    card = read_card(step / CARD)
    assert card is not None and card.image_pixels == 65_536 and card.reliability == found


def test_nothing_is_stored_with_a_planner_or_without_a_folder(tmp_path: Path) -> None:
    AgentCard(role="planner").save(tmp_path)
    with pytest.raises(SettingsError, match="trained as a planner"):
        store_reliability(tmp_path, {})
    with pytest.raises(SettingsError, match="does not exist"):
        store_reliability(tmp_path / "typo", {})
    assert not (tmp_path / "typo").exists()


def test_recorded_answers_that_people_judged_too_are_measured(tmp_path: Path) -> None:
    items = (
        CheckedItem(text="two boats", kind="count", probability=0.9, passed=True),
        CheckedItem(text="same boat", kind="identity", probability=0.2, passed=None),
        CheckedItem(text="a moon", kind="other"),
    )
    attempt = Attempt(
        prompt="two boats", seed=1, image=Picture.white((8, 8)), verdict=Verdict(success=True, items=items)
    )
    run = run_of(tmp_path / "run", [attempt], critic="transformers:mine|prompts=1")
    words = [("two boats", False), ("same boat", False), ("a moon", True), ("not asked", True)]
    said = tuple(ItemFeedback(text=text, true=true) for text, true in words)
    record_feedback(run, Feedback(step=1, attempt=0, items=said))
    logged: list[str] = []
    assert answered_items([run], "transformers:mine", logged.append) == [
        ("count", False, False),
        ("identity", False, True),
        ("other", True, False),
    ]
    found = measure_reliability(Knowing().check, [], answered_items([run], "transformers:mine"))
    assert {kind: (one.yes_of_true, one.no_of_false) for kind, one in found.items()} == {
        "count": (0, 0),
        "identity": (0, 1),
        "other": (0, 0),
    }
    assert not logged and answered_items([run], "transformers:other", logged.append) == []
    assert "another critic" in logged[0]
