"""The bridge under load: questions a second, with an image each, from the real client of OpenAI.

Decision: the judge is a wait of a known length, so that what the bridge itself takes is the difference.
Questions are all distinct; asked again, all are known.

    OMP_NUM_THREADS=1 python benchmarks/judge_bridge.py --parallel 16 --seconds 0.2 --questions 320
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import conftest  # noqa: F401 - makes the package importable
import openai

from interleave_thinker.backend.chat.protocol import Message, Reply, ReplySettings
from interleave_thinker.backend.generators.fake import FakeGenerator
from interleave_thinker.evaluation.judges import BenchmarkJudge
from interleave_thinker.evaluation.judges.bridge import JudgeBridge


class Waiting:
    """A chat that takes its time."""

    identity, prompt_set = "waiting", None

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        time.sleep(self._seconds)
        return Reply(text="Score: 1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--parallel", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=0.2, help="that the judge takes")
    parser.add_argument("--questions", type=int, default=320)
    given = parser.parse_args()
    image = FakeGenerator(512).draw("an image", None, 1).data_url()
    with tempfile.TemporaryDirectory() as folder:
        judge = BenchmarkJudge(Waiting(given.seconds), Path(folder) / "answers.sqlite")
        with JudgeBridge(judge, given.parallel).serving() as address:
            client = openai.OpenAI(api_key="none", base_url=f"{address}/v1", max_retries=0)

            def ask(number: int) -> float:
                content = [
                    {"type": "text", "text": f"Question {number}: Score: 0 or Score: 1?"},
                    {"type": "image_url", "image_url": {"url": image}},
                ]
                begun = time.monotonic()
                client.chat.completions.create(
                    model="judge",
                    messages=[{"role": "user", "content": content}],  # type: ignore[list-item]
                )
                return time.monotonic() - begun

            found = {"parallel": given.parallel, "judge_s": given.seconds, "questions": given.questions}
            for name in ("first", "again"):
                begun, used = time.monotonic(), time.process_time()
                with ThreadPoolExecutor(given.parallel) as pool:
                    took = list(pool.map(ask, range(given.questions)))
                wall = time.monotonic() - begun
                found |= {
                    f"{name}_a_second": round(given.questions / wall, 1),
                    f"{name}_median_s": round(median(took), 3),
                    f"{name}_processor_ms": round(1000 * (time.process_time() - used) / given.questions, 1),
                }
            print(json.dumps({**found, "asked": judge.asked}))


if __name__ == "__main__":
    main()
