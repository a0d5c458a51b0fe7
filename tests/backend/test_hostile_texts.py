"""Every reader takes linear time: 100,000 characters of anything, in every reader of texts."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Callable

import pytest
from support.long_replies import HOSTILE, LONG, long_replies

from interleave_thinker import InterleaveError, open_chat, open_scorer
from interleave_thinker.backend.core.answers.long_plan import read_outline as read_agents_outline
from interleave_thinker.backend.core.answers.long_plan import read_part
from interleave_thinker.backend.core.answers.objects import open_quote
from interleave_thinker.backend.core.answers.reading import read_plan, read_verdict, write_verdict
from interleave_thinker.backend.core.answers.reply_text import find_objects, split_reply
from interleave_thinker.backend.core.prompts.importer import string_constants
from interleave_thinker.backend.core.prompts.prompt_set import fill
from interleave_thinker.backend.core.remote.api_keys import KeyMask
from interleave_thinker.backend.core.types import MAX_TEXT, Request, Verdict
from interleave_thinker.backend.models.judge import read_scores
from interleave_thinker.backend.output.exporters.markdown import escape
from interleave_thinker.backend.output.report.run_report import changes
from interleave_thinker.backend.story.agents.requested import asked_count, asks_for_images
from interleave_thinker.backend.story.plan_editor.json_form import read_json
from interleave_thinker.backend.story.plan_editor.outline import read_outline
from interleave_thinker.tinyworld.wording import read_prompt
from interleave_thinker.training.reward.critic_reward import read_published
from interleave_thinker.training.reward.terms import format_reward

IN_TIME = pytest.mark.timeout(120)
"""All texts of a test together take seconds; a quadratic reader takes minutes for one."""
# What the other readers look for, each in the way that would be worst for a pattern that goes back.
UNITS = (
    *HOSTILE, "[1", "[1 ", "1 ", "[1,1]", "(8/", "1. a\n", "draw:", "draw : ", "| ", "\n\n", "made from ",
    "1.  ", "a: ",
    "a red sun at the ", " and ", "must be ; ", "; ", "{text_input}", "<image>", "A=A+A\n", "A='a'\n", "a ",
    "a b ", ". ",
    '{"execution_plan": [', '"execution_plan": [], ', '<answer>{"step_number": 1, "prompt": "a"}</answer>',
    '{"step_number": 1, ', "@https://", "</ ", "<  /", "`", "```json", "ſ", "\u2028",
    "\x85", "é{", "draw ", "one ", "在", "三张", "한 ", "with a ",
)  # fmt: skip


def read_both(text: str) -> None:
    text = text[: LONG // 5]
    changes(text, text[::-1])
    changes(text, text[::2] + "x" + text[::2])


READERS: dict[str, Callable[[str], object]] = {
    "plan": read_plan,
    "verdict": read_verdict,
    "objects": lambda text: [list(find_objects(place)) for place in split_reply(text).places],
    "open quote": open_quote,
    "verdict as written": lambda text: write_verdict(
        Verdict(success=False, refined_prompt=text[: LONG // 4], reasoning=text[: LONG // 4])
    ),
    "form": format_reward,
    "form, verdict first": lambda text: format_reward(text, verdict_first=True),
    "published reward": lambda text: read_published(f"<answer>{text}</answer>"),
    "scores": read_scores,
    "scorer": lambda text: open_scorer(f"judge[{text}"),
    "outline of an agent": read_agents_outline,
    "part of a plan": lambda text: read_part(text, range(1, 3)),
    "count": asked_count,
    "images": lambda text: asks_for_images(Request(text=text[:MAX_TEXT])),
    "outline": read_outline,
    "outline, one line": lambda text: read_outline(f"1. a\n   draw: {text}"),
    "plan as JSON": read_json,
    "tiny world": read_prompt,
    "tiny world's page": lambda text: read_prompt(f"a blue page with {text}"),
    "template": lambda text: fill(text, text_input="x"),
    "module": lambda text: string_constants(text, "m"),
    "Markdown": escape,
    "two prompts": read_both,
    "key": KeyMask("sk-0123456789abcdef"),
    "server": lambda text: open_chat(f"openai:{text}"),
}


@IN_TIME
@pytest.mark.parametrize("name", READERS)
def test_every_reader_takes_linear_time(name: str) -> None:
    for unit in UNITS:
        for text in (unit * (LONG // len(unit)), f"<{unit * (LONG // len(unit) - 1)}>"):
            tried(READERS[name], text)
    tried(READERS[name], "<" + " " * (LONG - 1))


@IN_TIME
def test_replies_of_every_shape_are_read_in_linear_time() -> None:
    for text in long_replies().values():
        tried(read_verdict, text)


def test_a_reply_takes_no_more_memory_than_a_few_times_its_length() -> None:
    for unit in ("[{},", "{},", "[],", '{"a":', '"a": 1, ', "[[", "1,"):
        tracemalloc.start()
        tried(read_plan, f'<answer>{{"execution_plan": [{unit * (90_000 // len(unit))}')
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 20_000_000, unit


def tried(read: Callable[[str], object], text: str) -> None:
    """Read a text, which may be an error."""
    with contextlib.suppress(InterleaveError):
        read(text)
