"""`published_quirks` compared with the published rule.

The values were computed by hand, each with and without a rewritten prompt in the row.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.reward_fakes import Artist, Taste, critic_reward

from interleave_thinker.backend.core.types import Score
from interleave_thinker.training.reward.critic_reward import read_published
from interleave_thinker.training.rows.rl import CriticRlRow, Evaluation

BEFORE = "the prompt before"
NOTHING: object = None
TRUE = '{"previous_step_success": true, "refine_prompt": ""}'
FALSE = '{"previous_step_success": false, "refine_prompt": "a red boat"}'
LONG = "soft light " * 800 + "at noon"


def answer(body: str, thought: str = "<think>so</think>") -> str:
    return f"{thought}<answer>{body}</answer>"


def rewarded(folder: Path, text: str, truth: bool, before: str = BEFORE) -> tuple[float, list[str]]:
    """Return the reward of a reply, and the prompts that were generated; `before` is the row's prompt.

    Every new image is perfect: from 4 and 4 to 10 and 10, both step terms are 0.8.
    """
    artist, perfect = Artist(), Taste(lambda: Score(semantics=10, quality=10))
    judge = critic_reward(folder, artist, perfect, published_quirks=True)
    mark = 10 if truth else 4
    row = CriticRlRow(
        origin_prompt="a boat",
        rewritten_prompt=before,
        edited_image_path="after.png",
        evaluation=Evaluation(success=truth, semantics=mark, quality=mark),
    )
    (sample,), _ = asyncio.run(judge.judged([text], [row]))
    assert sample.overall is not None
    return sample.overall, artist.prompts


# Reply, its reward if the image is right (no image is generated: 0.5 and 0.5), its reward if it is wrong
# (the new image is perfect: 0.8 and 0.8), and the prompt used then. 0.5 x form + 0.5 x (0.2 x accuracy + 0.8
# x step).
TABLE = {
    "as taught, right": (answer(TRUE), 0.8, 0.82, BEFORE),
    "as taught, refused": (answer(FALSE), 0.7, 0.92, "a red boat"),
    "no reply": ("", 0.2, 0.32, BEFORE),
    "words alone": ("The hat is missing.", 0.2, 0.32, BEFORE),
    "no tags": (FALSE, 0.2, 0.32, BEFORE),
    "an answer that is not closed": (answer(FALSE).removesuffix("</answer>"), 0.2, 0.32, BEFORE),
    "other letters": (answer(FALSE).replace("answer>", "ANSWER>"), 0.2, 0.32, BEFORE),
    "no thought": (answer(FALSE, ""), 0.7, 0.92, "a red boat"),
    "a thought that is not closed": (answer(FALSE, "<think>so"), 0.7, 0.92, "a red boat"),
    "a thought that was never opened": (answer(FALSE, "so</think>"), 0.7, 0.92, "a red boat"),
    "the thought after it": (answer(FALSE, "") + "<think>so</think>", 0.2, 0.42, "a red boat"),
    "two answers": (answer(TRUE) + answer(FALSE), 0.8, 0.82, BEFORE),
    "words after it": (answer(FALSE) + " I am sure.", 0.7, 0.92, "a red boat"),
    "a comma too many": (answer(FALSE.replace('"}', '",}')), 0.7, 0.92, "a red boat"),
    "no comma": (answer(FALSE.replace("false,", "false")), 0.7, 0.92, "a red boat"),
    "no brace at the end": (answer(FALSE.removesuffix("}")), 0.7, 0.92, "a red boat"),
    "a Python literal": (answer("{'previous_step_success': True, 'refine_prompt': 'b'}"), 0.8, 0.82, "b"),
    "a code fence": (answer(f"\n```json\n{FALSE}\n```\n"), 0.7, 0.92, "a red boat"),
    "a list": (answer(f"[{TRUE}]"), 0.0, 0.0, NOTHING),
    "a number": (answer("5"), 0.0, 0.0, NOTHING),
    "a text": (answer('"true"'), 0.0, 0.0, NOTHING),
    "an empty list": (answer("[]"), 0.2, 0.32, BEFORE),
    "an empty object": (answer("{}"), 0.2, 0.32, BEFORE),
    "an empty answer": (answer(""), 0.2, 0.32, BEFORE),
    "null": (answer("null"), 0.2, 0.32, BEFORE),
    "a verdict in words": (answer(TRUE.replace("true", '"true"')), 0.2, 0.32, BEFORE),
    "a verdict of 1": (answer('{"previous_step_success": 1, "refine_prompt": ""}'), 0.3, 0.32, BEFORE),
    "a verdict of 0": (answer('{"previous_step_success": 0, "refine_prompt": "b"}'), 0.2, 0.42, "b"),
    "no verdict": (answer('{"refine_prompt": "b"}'), 0.2, 0.32, "b"),
    "no refined prompt": (answer('{"previous_step_success": false}'), 0.2, 0.42, BEFORE),
    "other names": (answer('{"success": false, "refined_prompt": "b"}'), 0.2, 0.32, BEFORE),
    "a refined prompt of null": (answer(FALSE.replace('"a red boat"', "null")), 0.2, 0.3, NOTHING),
    "a refined prompt of 7": (answer(FALSE.replace('"a red boat"', "7")), 0.2, 0.3, NOTHING),
    "a refined prompt in parts": (answer(FALSE.replace("a red boat", "a / b > c")), 0.7, 0.92, "a/b>c"),
    "8,000 characters": (answer(FALSE.replace("a red boat", LONG)), 0.7, 0.92, LONG),
    "8,000 characters in a list": (answer(f'[{TRUE}, "{LONG}"'), 0.0, 0.0, NOTHING),
    "spaced tags": ("< think >so</ think > < answer > " + FALSE + " < / answer >", 0.7, 0.92, "a red boat"),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_published_value_of(name: str, tmp_path: Path) -> None:
    text, right, wrong, drawn = TABLE[name]
    found, nothing = rewarded(tmp_path, text, truth=True)
    assert found == pytest.approx(right) and nothing == []
    # The published code generates with any rewritten prompt of the row, also an empty one.
    for before in (BEFORE, ""):
        found, prompts = rewarded(tmp_path, text, truth=False, before=before)
        assert found == pytest.approx(wrong)
        assert prompts == ([] if drawn is NOTHING else [before if drawn == BEFORE else drawn])


def test_a_hostile_reply_is_scored_fast() -> None:
    spaces = " " * 100_000
    for text in ("<answer>" * 5000, "<answer>" + "{" * 5000 + "</answer>", f"{spaces}<{spaces}"):
        found = read_published(text)
        assert found is None or found.form == 0
