"""Cost of a plan in one reply and in parts: replies and tokens, by the number of steps.

    COMFYUI_PATH=~/comfy/ComfyUI-new python -m benchmarks.long_plans

Scripted replies of typical length and the planner's own questions are counted with Qwen's tokenizer, so the
figures depend on the prompts and not on a model. Input tokens that repeat the beginning of an earlier
question of the same plan are also counted, because an agent with a prefix cache reads them once.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from interleave_thinker.backend.agents.long_plan import LongPlan
from interleave_thinker.backend.agents.planner import Planner
from interleave_thinker.backend.agents.requested.count import AskedCount
from interleave_thinker.backend.chat import Message, Reply, ReplySettings
from interleave_thinker.backend.prompts import default_prompt_set
from interleave_thinker.backend.types import Request

ALWAYS = (
    "Watercolour on rough paper, soft morning light. Mara, a girl of nine with short black hair, a green "
    "raincoat and red boots; her grey donkey Pim with one white ear; a brown leather bag."
)
STATE = (
    "Mara walks left of Pim on the coast road, hood down, bag on her right shoulder. The bread is cut and "
    "half eaten, the lamp is lit and hangs on Pim's saddle; it is late afternoon and the rain has stopped."
)
LINE = "Mara and Pim reach milestone {0} and find something new there."
THOUGHT = "The request wants one walk. One change for each step; coat, boots, bag and donkey stay the same."


class Walker:
    """Writes the requested steps, all of the same length, and records questions and answers."""

    identity, prompt_set = "walker", None

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.said: list[str] = []

    def reply(self, messages: Sequence[Message], settings: ReplySettings, on_token: object = None) -> Reply:
        """Write the requested outline or steps."""
        question = "".join(str(part) for part in messages[-1].content)
        self.asked.append(question)
        part = re.search(r"Write steps (\d+) to (\d+) in full", question)
        count = int((re.search(r"exactly (\d+) (?:lines|steps)", question) or ["", "0"])[1])
        if part:
            told = {"execution_plan": steps(range(int(part[1]), int(part[2]) + 1)), "state": STATE}
        elif '"outline"' in question:
            lines = [f"{number}. {LINE.format(number)}" for number in range(1, count + 1)]
            told = {"outline": lines, "always": ALWAYS}
        else:
            told = {"execution_plan": steps(range(1, count + 1))}
        text = f"<think>{THOUGHT}</think>\n\n<answer>{json.dumps(told)}</answer>"
        self.said.append(text)
        return Reply(text=text)


def steps(numbers: range) -> list[dict[str, object]]:
    """Return steps with these numbers."""
    return [
        {
            "step_number": number,
            "step_name": f"Milestone {number}",
            "instruction": LINE.format(number),
            "prompt": f"Mara, a girl with short black hair, a green raincoat and red boots, stands left of "
            f"one grey donkey with one white ear at milestone {number} and points at it; brown bag on her "
            "right shoulder, the lamp on the saddle lit. The style stays watercolour on rough paper.",
            "auxiliary_text": f"At milestone {number} the wind turned.",
        }
        for number in numbers
    ]


def tokens_of(comfy: Path) -> Callable[[str], list[int]]:
    """Return Qwen's tokenizer from a ComfyUI checkout."""
    from transformers import Qwen2Tokenizer

    words = Qwen2Tokenizer.from_pretrained(comfy / "comfy" / "text_encoders" / "qwen25_tokenizer")
    return lambda text: words(text, add_special_tokens=False)["input_ids"]


def repeated(questions: Sequence[list[int]]) -> int:
    """Return the number of tokens that repeat the beginning of an earlier question."""
    total = 0
    for place, question in enumerate(questions):
        total += max((_beginning(question, earlier) for earlier in questions[:place]), default=0)
    return total


def _beginning(one: list[int], other: list[int]) -> int:
    """Return the number of equal tokens at the beginning of two questions."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


def main() -> None:
    """Run the experiment and print its figures."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--steps", type=int, nargs="+", default=[8, 12, 13, 25, 50])
    given = arguments.parse_args()
    tokens = tokens_of(Path(os.environ["COMFYUI_PATH"]).expanduser())
    whole = default_prompt_set().in_one_reply()
    print("| steps | way | replies | tokens read | of them read before | tokens written | longest reply |")
    print("|---|---|---|---|---|---|---|")
    for count in given.steps:
        request = Request(text=f"In exactly {count} steps: Mara walks along the coast with her donkey.")
        for way in ("one reply", "parts"):
            chat = Walker()
            if way == "one reply":
                plan = Planner(chat, whole).plan(request)
            else:
                writer = LongPlan(Planner(chat), request, ReplySettings(), None, None)
                plan = writer.write(AskedCount(count, count, exact=True))
            assert len(plan.steps) == count
            read, said = ([tokens(text) for text in texts] for texts in (chat.asked, chat.said))
            print(
                f"| {count} | {way} | {len(said)} | {sum(map(len, read)):,} | {repeated(read):,} "
                f"| {sum(map(len, said)):,} | {max(map(len, said)):,} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
