"""Teachers of trajectories without a model, for tests. Everything can be pickled.

They are a planner of three steps, a critic that rejects some images by their digest, and generators that
record their images.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.small_agents import Counting

from interleave_thinker import ChatError, Critic, Generator, Picture, Plan, Planner, Step, Verdict
from interleave_thinker.backend.core.answers.reading import write_plan, write_verdict
from interleave_thinker.backend.core.seams.chat_model import Message, Reply, ReplySettings
from interleave_thinker.research.data.trajectories import Teachers


class SmallChat:
    """Plans three steps for any request; rejects an image whose digest is not a multiple of three."""

    prompt_set = None

    def __init__(self, role: str, nonsense: str = "", down: str = "") -> None:
        self.identity = f"small {role}"
        self._role, self._nonsense, self._down = role, nonsense, down

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        content = messages[0].content
        text = "".join(part for part in content if isinstance(part, str))
        if self._down and self._down in text:
            raise ChatError("The teacher is down.")
        if self._nonsense and self._nonsense in text:
            return Reply(text="once upon a time", tokens=4, question_tokens=100)
        return Reply(text=self._answer(content), tokens=20, question_tokens=100, cached_tokens=40)

    def _answer(self, content: Sequence[str | Picture]) -> str:
        if self._role == "planner":
            steps = (Step(number=n, prompt=f"page {n}", auxiliary_text=None) for n in (1, 2, 3))
            return write_plan(Plan(steps=tuple(steps), reasoning="three pages"))
        after = [part for part in content if isinstance(part, Picture)][-1]
        success = int(after.digest, 16) % 3 == 0
        return write_verdict(Verdict(success=success, refined_prompt="page, clearly", reasoning="looked"))


@dataclass(frozen=True)
class SmallTeachers:
    """Opens them: `log` gets the key of every image, which takes `seconds`.

    Requests with the word `nonsense` or `down` get that from the planner.
    """

    log: Path | None = None
    seconds: float = 0.0
    nonsense: str = ""
    down: str = ""
    generators: int = 1

    def __call__(self) -> Teachers:
        drawers: list[tuple[str, Generator]] = [
            (f"fake {n}", Counting(self.log, self.seconds, size=16 + n)) for n in range(self.generators)
        ]
        return Teachers(
            planner=Planner(SmallChat("planner", self.nonsense, self.down)),
            critic=Critic(SmallChat("critic")),
            generators=tuple(drawers),
        )


def write_prompts(path: Path, count: int, text: str = "story {n}") -> Path:
    """Write a prompt file with this number of prompts."""
    rows = [{"id": f"p{n:04}", "user_input": text.format(n=n), "split": "train"} for n in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def records(out: Path) -> dict[str, bytes]:
    """Return every file of the runs, without times."""
    kept = ("execution_record.json", "sample.json", "plan.json")
    files = [path for name in kept for path in out.glob(f"*/{name}")]
    files += [*out.glob("*/pictures/*.png")]
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in sorted(files)}


def until(true: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not arrive"
        time.sleep(0.01)
