"""What fine-tuning does not learn: masked parts of an answer, and the rows whose loss is measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.short_trainings import sft, sft_row
from support.tiny_checkpoint import REFUSED

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from interleave_thinker.backend.core.answers.reading import read_verdict, write_verdict
from interleave_thinker.backend.core.errors import AnswerError, TrainingError
from interleave_thinker.backend.core.types import Verdict
from interleave_thinker.backend.output.sft_rows import refined_range
from interleave_thinker.training.rows.sft import SftRow, as_prompt_completion, check_rows, write_rows
from interleave_thinker.training.stages.sft import asked, hold_out
from interleave_thinker.training.stages.sft_trainer import IGNORE_INDEX, mask_labels

PROMPT = "a light page"


def row(answer: str = REFUSED, marked: bool = True, question: str = "Is it light?") -> SftRow:
    return sft_row(question, answer, "0.png", not_learned=[refined_range(answer)] if marked else [])


@pytest.fixture(scope="module")
def tokenizer(base: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(base)


def test_a_mark_is_saved_and_rows_without_one_are_unchanged(images: Path, tmp_path: Path) -> None:
    (tmp_path / "0.png").write_bytes((images / "0.png").read_bytes())
    write_rows(tmp_path / "rows.json", [row(), row(marked=False)])
    written = json.loads((tmp_path / "rows.json").read_text())
    assert set(written[1]) == {"messages", "images"}
    start, end = written[0]["not_learned"][0]
    assert written[0]["messages"][-1]["content"][start:end] == PROMPT
    assert check_rows(tmp_path / "rows.json")[0] == [row(), row(marked=False)] and row() != row(marked=False)
    (answer,) = as_prompt_completion(row(), tmp_path)["completion"]
    assert answer["not_learned"] == [list(refined_range(REFUSED))]


@pytest.mark.parametrize("part", [(5, 5), (6, 5), (-1, 4), (0, len(REFUSED) + 1)])
def test_a_mark_is_within_the_answer(part: tuple[int, int]) -> None:
    with pytest.raises(ValidationError, match="not_learned"):
        SftRow(messages=row().messages, images=["0.png"], not_learned=[part])


@given(st.text(min_size=1, max_size=60), st.text(max_size=60), st.booleans())
def test_the_range_is_the_refined_prompt_in_any_answer(prompt: str, thought: str, first: bool) -> None:
    try:
        answer = write_verdict(Verdict(success=False, refined_prompt=prompt, reasoning=thought), first)
    except AnswerError:
        return
    start, end = refined_range(answer)
    assert json.loads(f'"{answer[start:end]}"') == prompt == read_verdict(answer).refined_prompt


def test_no_loss_falls_on_a_marked_prompt(folder: Path, tmp_path: Path) -> None:
    """With the trainer's own collator, the masked row learns everything except the masked prompt."""
    said: list[str] = []
    rows = [row(), row(REFUSED.replace("dark", "darkest"), marked=False)]
    sft(folder, tmp_path, said.append, rows=rows, train_sampling_strategy="sequential")
    (line,) = [line for line in said if line.startswith("first row: ")]
    assert PROMPT not in line and '"refine_prompt": ""}</answer><|im_end|>' in line


def masked(tokenizer: Any, answer: str, part: tuple[int, int]) -> tuple[list[tuple[int, int]], list[bool]]:
    """Return the tokens of an answer as character ranges, and which of them are masked."""
    import torch

    encoded = tokenizer(answer, add_special_tokens=False, return_offsets_mapping=True)
    ids = torch.tensor(encoded["input_ids"])
    labels = ids.clone()
    mask_labels(tokenizer, ids, labels, answer, [part])
    return encoded["offset_mapping"], (labels == IGNORE_INDEX).tolist()


@pytest.mark.parametrize(
    ("part", "within"), [("k</thi", True), ("fal", True), ("se, ", True), (" light", False)]
)
def test_a_token_partly_inside_is_not_trained_on(tokenizer: Any, part: str, within: bool) -> None:
    """A part that begins or ends within a token, such as `think`, masks all of it and no neighbor."""
    start = REFUSED.index(part)
    end = start + len(part)
    tokens, ignored = masked(tokenizer, REFUSED, (start, end))
    assert any(first < edge < last for edge in (start, end) for first, last in tokens) is within
    assert ignored == [any(start <= place < end for place in range(*token)) for token in tokens]


def test_a_part_is_located_by_its_context(tokenizer: Any) -> None:
    """The same text in the reasoning is learned."""
    answer = REFUSED.replace("<think>dark", f"<think>not {PROMPT}, not {PROMPT}")
    start, end = refined_range(answer)
    assert answer.count(PROMPT) == 3 and answer[start:end] == PROMPT
    tokens, ignored = masked(tokenizer, answer, (start, end))
    assert ignored == [first < end and start < last for first, last in tokens]


def test_tokens_or_an_answer_unlike_the_learned_ones_are_rejected(tokenizer: Any) -> None:
    """Offsets of another tokenization would mask the wrong tokens."""
    import torch

    part = [refined_range(REFUSED)]
    ids = torch.tensor([token for letter in REFUSED for token in tokenizer(letter)["input_ids"]])
    assert tokenizer.decode(ids) == REFUSED
    with pytest.raises(TrainingError, match="do not decode to the answer"):
        mask_labels(tokenizer, ids, ids.clone(), REFUSED, part)
    ids = torch.tensor(tokenizer(REFUSED, add_special_tokens=False)["input_ids"])
    with pytest.raises(TrainingError, match="chat template"):
        mask_labels(tokenizer, ids, ids.clone(), REFUSED.replace("light", "bright"), part)


def test_a_question_is_all_turns_before_the_answer() -> None:
    one, other = row(), row(REFUSED.replace("dark", "dim"))
    assert asked(one) == asked(other)
    longer = SftRow(messages=[*one.messages, *other.messages], images=["0.png", "0.png"])
    second = other.messages[0].model_copy(update={"content": "<image>Is it dark?"})
    asks_else = SftRow(messages=[*one.messages, second, other.messages[1]], images=["0.png", "0.png"])
    elsewhere = one.model_copy(update={"images": ["1.png"]})
    assert len({asked(each) for each in (one, longer, asks_else, elsewhere)}) == 4


def test_every_row_that_asks_a_held_out_question_leaves_the_training() -> None:
    """Rows with the same question are held out together, regardless of their answers."""
    answers = [REFUSED, REFUSED.replace("dark", "darkest"), REFUSED.replace("dark", "dim")]
    rows = [row(answer, question=f"Is it light? {number}") for answer in answers for number in range(40)]
    for most in (2, 4):  # at most one question in twenty
        kept, shown = hold_out(rows, most)
        held = {one.messages[0].content for one in shown}
        assert len(held) == 2 and len(kept) == 3 * 38
        assert not held & {one.messages[0].content for one in kept}
    assert hold_out(rows[:19], 4) == (rows[:19], []) and hold_out(rows, 0) == (rows, [])
