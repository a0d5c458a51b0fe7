"""`published_quirks` compared with the published rule.

A table has cases with manually computed values. 2,000 further replies are combined from parts whose treatment
by the published code is known, each with and without a rewritten prompt in the row.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest
from PIL import Image
from support.reward_fakes import Artist, Taste

from interleave_thinker.backend.core.types import Score
from interleave_thinker.training.content_cache import ContentCache
from interleave_thinker.training.reward.critic_reward import CriticReward, RewardSettings, read_published
from interleave_thinker.training.reward.redrawer import DrawingSettings, Redrawer
from interleave_thinker.training.reward.rollout_reward import RolloutReading
from interleave_thinker.training.rows.rl import CriticRlRow, Evaluation

BEFORE = "the prompt before"
NOTHING: object = None
TRUE = '{"previous_step_success": true, "refine_prompt": ""}'
FALSE = '{"previous_step_success": false, "refine_prompt": "a red boat"}'
LONG = "soft light " * 800 + "at noon"


def answer(body: str, thought: str = "<think>so</think>") -> str:
    return f"{thought}<answer>{body}</answer>"


class Ten(Taste):
    """Scores every new image as perfect: from 4 and 4 to 10 and 10, both step terms are 0.8."""

    def score(self, before, after, instruction):
        super().score(before, after, instruction)
        return Score(semantics=10, quality=10)


def rewarded(
    folder: Path, texts: list[str], truth: bool, before: str = BEFORE
) -> tuple[list[float], list[str]]:
    """Return (rewards of the texts as answers to one row, prompts that were generated, without duplicates).

    `before` is the row's rewritten prompt.
    """
    Image.new("RGB", (32, 32)).save(folder / "after.png")
    artist = Artist()
    cache = ContentCache(folder / f"cache {truth} {before}")
    engine = Redrawer(artist, Ten(), cache, DrawingSettings(tries=1))
    judge = CriticReward(engine, RewardSettings(published_quirks=True), RolloutReading(folder, str))
    mark = 10 if truth else 4
    row = CriticRlRow(
        origin_prompt="a boat",
        rewritten_prompt=before,
        edited_image_path="after.png",
        evaluation=Evaluation(success=truth, semantics=mark, quality=mark),
    )
    samples, _ = asyncio.run(judge.judged(texts, [row] * len(texts)))
    assert all(sample.overall is not None for sample in samples)
    return [sample.overall or 0.0 for sample in samples], artist.prompts


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
    "a verdict in words": (
        answer('{"previous_step_success": "true", "refine_prompt": ""}'),
        0.2,
        0.32,
        BEFORE,
    ),
    "a verdict of 1": (answer('{"previous_step_success": 1, "refine_prompt": ""}'), 0.3, 0.32, BEFORE),
    "a verdict of 0": (answer('{"previous_step_success": 0, "refine_prompt": "b"}'), 0.2, 0.42, "b"),
    "no verdict": (answer('{"refine_prompt": "b"}'), 0.2, 0.32, "b"),
    "no refined prompt": (answer('{"previous_step_success": false}'), 0.2, 0.42, BEFORE),
    "other names": (answer('{"success": false, "refined_prompt": "b"}'), 0.2, 0.32, BEFORE),
    "a refined prompt of null": (
        answer('{"previous_step_success": false, "refine_prompt": null}'),
        0.2,
        0.3,
        NOTHING,
    ),
    "a refined prompt of 7": (
        answer('{"previous_step_success": false, "refine_prompt": 7}'),
        0.2,
        0.3,
        NOTHING,
    ),
    "a refined prompt in parts": (
        answer(FALSE.replace("a red boat", "red / blue > green")),
        0.7,
        0.92,
        "red/blue>green",
    ),
    "8,000 characters": (answer(FALSE.replace("a red boat", LONG)), 0.7, 0.92, LONG),
    "8,000 characters in Python": (
        answer(f"{{'previous_step_success': False, 'refine_prompt': '{LONG}',}}"),
        0.7,
        0.92,
        LONG,
    ),
    "8,000 characters in a list": (answer(f'[{TRUE}, "{LONG}"'), 0.0, 0.0, NOTHING),
    "spaced tags": ("< think >so</ think > < answer > " + FALSE + " < / answer >", 0.7, 0.92, "a red boat"),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_published_value_of(name: str, tmp_path: Path) -> None:
    text, right, wrong, drawn = TABLE[name]
    (found,), nothing = rewarded(tmp_path, [text], truth=True)
    assert found == pytest.approx(right) and nothing == []
    (found,), prompts = rewarded(tmp_path, [text], truth=False)
    assert found == pytest.approx(wrong)
    assert prompts == ([] if drawn is NOTHING else [drawn])
    # The published code generates with any rewritten prompt of the row.
    (found,), prompts = rewarded(tmp_path, [text], truth=False, before="")
    assert found == pytest.approx(wrong)
    assert prompts == ([] if drawn is NOTHING else ["" if drawn == BEFORE else drawn])


# Parts of replies: text before and after the answer, and whether the reply's form is still valid.
BEFORES = {
    "": True,
    "<think>so</think>": True,
    "<think>so": True,
    "</think>\n\n": True,
    "Well: ": True,
    "<THINK>x ": True,
}
AFTERS = {
    "": True,
    " Done.": True,
    f"<answer>{TRUE}</answer>": True,
    "</answer>": True,
    "<": True,
    "\n\n": True,
}
# Values of the verdict: (is a bool, equals True, equals False).
VERDICTS = {
    "true": (True, True, False),
    "false": (True, False, True),
    "True": (True, True, False),
    "False": (True, False, True),
    '"true"': (False, False, False),
    '"False"': (False, False, False),
    "1": (False, True, False),
    "0": (False, False, True),
    "2": (False, False, False),
    "null": (False, False, False),
    "[]": (False, False, False),
}
# Values of the refined prompt: (is a string, the prompt that is used, None for no image).
REFINED: dict[str, tuple[bool, str | None]] = {
    '""': (True, BEFORE),
    '"a red boat"': (True, "a red boat"),
    '"  "': (True, "  "),
    '"a / b"': (True, "a/b"),
    '"x < y"': (True, "x<y"),
    "null": (False, None),
    "3": (False, None),
    '["a"]': (False, None),
}
LATE = "<think>late</think>"


def put_together(rng: Random) -> tuple[str, float, dict[bool, float], str | None, bool]:
    """Return (reply, format, accuracy by truth, prompt for a wrong image, if the published code fails)."""
    before, after = rng.choice([*BEFORES]), rng.choice([*AFTERS])
    verdict, refined = rng.choice([*VERDICTS]), rng.choice([*REFINED])
    is_bool, *equal = VERDICTS[verdict]
    is_text, drawn = REFINED[refined]
    gap = rng.choice(["", " ", "\n"])
    comma = rng.choice(["", "", ","])
    shape = rng.choice(["object", "object", "object", "list", "late", "open", "bare", "renamed", "alone"])
    fields = f'"previous_step_success": {verdict},{gap}"refine_prompt": {refined}{comma}'
    if shape == "list":
        return f"{before}<answer>[{{{fields}}}, 1]</answer>{after}", 0, {True: 0, False: 0}, None, True
    if shape == "bare":
        return f"{before}{{{fields}}}", 0, {True: 0, False: 0}, BEFORE, False
    if shape == "open":
        return f"{before}<answer>{{{fields}}}", 0, {True: 0, False: 0}, BEFORE, False
    if shape == "renamed":
        other = fields.replace("previous_step_success", "success").replace("refine_prompt", "refined_prompt")
        return f"{before}<answer>{{{other}}}</answer>{after}", 0, {True: 0, False: 0}, BEFORE, False
    right = {True: float(equal[0]), False: float(equal[1])}
    if shape == "alone":
        return (
            f'{before}<answer>{{"previous_step_success": {verdict}}}</answer>{after}',
            0,
            right,
            BEFORE,
            False,
        )
    if shape == "late":
        text = f"<answer>{gap}{{{fields}}}</answer>{LATE}{after}"
        return text, 0, right, drawn, False
    return (
        f"{before}{gap}<answer>{{{fields}}}{gap}</answer>{after}",
        float(is_bool and is_text),
        right,
        drawn,
        False,
    )


@pytest.mark.parametrize("before", [BEFORE, ""])
def test_two_thousand_replies(tmp_path: Path, before: str) -> None:
    rng = Random(0)
    cases = [put_together(rng) for _ in range(2000)]
    for truth, step in ((True, 0.5), (False, 0.8)):
        found, prompts = rewarded(tmp_path, [case[0] for case in cases], truth, before)
        wanted = []
        for _, form, right, drawn, fails in cases:
            moved = step if truth or drawn is not None else 0.5
            wanted.append(0.0 if fails else 0.5 * form + 0.5 * (0.2 * right[truth] + 0.8 * moved))
        wrong = [
            (case, a, b) for case, a, b in zip(cases, found, wanted, strict=True) if a != pytest.approx(b)
        ]
        assert not wrong, (len(wrong), wrong[:3])
        drawn = {before if case[3] == BEFORE else case[3] for case in cases} - {None}
        assert set(prompts) == (set() if truth else drawn)


def test_a_hostile_reply_is_scored_fast() -> None:
    for text in (
        "<answer>" * 5000,
        "<answer>" + "{" * 5000 + "</answer>",
        " " * 100_000 + "<" + " " * 100_000,
    ):
        found = read_published(text)
        assert found is None or found.form == 0
