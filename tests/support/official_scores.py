"""Official evaluators, unchanged, on miniatures with known answers and expected figures.

The data is ours, in the format of each benchmark. It is run, collected and scored like a user would, with
agents without a model and a fake judge that knows the answers. The expected figures are computed here from
the answers alone, and must equal those of the evaluator and scores.json exactly. When scored again, the judge
must not be asked.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from PIL import Image
from support.benchmark_runs import carry_out, setting_of
from support.fake_judge import knowing

from interleave_thinker import Message, Picture, Plan, Planner, Reply, ReplySettings, Step
from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.research.data.trajectories import Teachers
from interleave_thinker.research.evaluation.judge_bridge import BenchmarkJudge
from interleave_thinker.research.evaluation.official_scoring import OfficialScoring, score_officially
from interleave_thinker.research.evaluation.submission import collect

TOKEN = re.compile(r"\b[a-z]\d{2,4}\b")
LEVELS = (32, 96, 160, 224)


def color_of(token: str) -> tuple[int, int, int]:
    """Return a color for a token, far from those of all others."""
    number = int(token[1:])
    return LEVELS[number % 4], LEVELS[number // 4 % 4], LEVELS[number // 16 % 4]


class TokenChat:
    """A planner that repeats the token of its request in two steps."""

    identity, prompt_set = "tokens", None

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        text = "".join(part for part in messages[-1].content if isinstance(part, str))
        token = TOKEN.findall(text)[-1]
        red, green, blue = color_of(token)
        steps = tuple(
            Step(number=n, prompt=f"color {red} {green} {blue}", auxiliary_text=f"Step {n} of {token}.")
            for n in (1, 2)
        )
        return Reply(text=write_plan(Plan(steps=steps, reasoning="two")), tokens=9)


class ColorGenerator(FakeGenerator):
    """Generates the color `R G B` of the prompt."""

    identity = "colors/1"

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        red, green, blue = map(int, prompt.split()[1:4])
        return Picture(Image.new("RGB", (16, 16), (red, green, blue)))


def teachers() -> Teachers:
    return Teachers(planner=Planner(TokenChat()), critic=None, generators=(("colors", ColorGenerator()),))


@dataclass
class Miniature:
    """Data and answers of a miniature.

    Attributes:
        expected: Figures by name, as the evaluator reports them.
        values: Values of items by metric.
        digits: Digits to which the evaluator rounds.
    """

    data: Path
    known: list[dict[str, Any]] = field(default_factory=list)
    expected: dict[str, float] = field(default_factory=dict)
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    digits: int = 9
    checkout: Path | None = None


def picture(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (16, 16), (255, 255, 255)).save(path)
    return path.name


def ueval(folder: Path, rng: random.Random, checkout: Path) -> Miniature:
    made = Miniature(folder / "test.jsonl")
    rows = []
    for n in range(16):
        token = f"u{n:02}"
        rubrics = {part: [f"rubric {token}-{part}-{at}." for at in range(3)] for part in ("text", "image")}
        rates = {}
        for part, ones in rubrics.items():
            met = [rng.random() < 0.6 for _ in ones]
            made.known += [{"text": one, "met": is_met} for one, is_met in zip(ones, met, strict=True)]
            rates[part] = sum(met) / len(met)
        made.values[token] = {**rates, "both": sum(rates.values()) / 2}
        task = ("art", "life", "space", "paper")[n % 4]
        rows.append({"id": token, "task": task, "prompt": f"Explain {token}."})
        rows[-1] |= {f"{part}_rubrics": ones for part, ones in rubrics.items()}
    made.data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for part in ("text", "image"):
        rates = [one[part] for one in made.values.values()]
        made.expected[part] = sum(rates) / len(rates)
    return made


def specv(folder: Path, rng: random.Random, checkout: Path) -> Miniature:
    root = folder / "checkout"
    made = Miniature(root / "eval_data" / "interleave", digits=2, checkout=root)
    made.data.mkdir(parents=True)
    (root / "eval").symlink_to(checkout / "eval")
    if (checkout / ".git").exists():
        (root / ".git").symlink_to(checkout / ".git")
    tracks = ("interleaved_completion", "real_world_assistant", "reasoning_interleaved")
    for number, track in enumerate((*tracks, "structured_tutorial")):
        rows, scores = [], []
        for n in range(4):
            token = f"s{4 * number + n:02}"
            row: dict[str, Any] = {"id": token, "dimension": track, "question": f"Write about {token}."}
            if number == 0:
                row["question"] = f"From [IMAGE1] write about {token}."
                row["question_img"] = [picture(made.data / f"{token}.png")]
            rows.append(row)
            checks, right = [], 0
            for at in range(7):
                met, wanted = rng.random() < 0.7, rng.random() < 0.8
                made.known.append({"about": f"Check {token}-{at}?", "met": met})
                right += met == wanted
                answer = "Yes" if wanted else "No"
                checks.append({"id": at, "question": f"Check {token}-{at}?", "expected_answer": answer})
            path = root / "eval_checklist" / "interleave" / track / f"{token}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(checks))
            made.values[token] = {"as expected": right / 7}
            scores.append(round(100 * right / 7, 2))
        (made.data / f"{track}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        made.expected[track] = round(fmean(scores), 2)
    made.expected["overall"] = round(fmean(made.expected.values()), 2)
    return made


MINIATURES = {"ueval": ueval, "specv": specv}


def run(name: str, folder: Path, made: Miniature) -> Path:
    """Run and collect the benchmark's folder."""
    out = folder / "out"
    carry_out(out, setting_of(name, made.data, max_attempts=1), teachers)
    collect(out, log=lambda line: None)
    return out


def differences(one: Mapping[str, float], other: Mapping[str, float], digits: int) -> list[str]:
    """Return where two sets of figures differ."""
    return [
        f"{name}: {one.get(name)} is not {other.get(name)}"
        for name in {*one, *other}
        if name not in one or name not in other or abs(one[name] - other[name]) > 0.5001 * 10**-digits
    ]


def scored(name: str, checkout: Path, python: str, parallel: int = 16) -> dict[str, Any]:
    """Score a miniature twice, from its data to its figures; `wrong` lists all deviations."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()
        begun = time.monotonic()
        made = MINIATURES[name](folder, random.Random(f"official {name}"), checkout.resolve())
        out = run(name, folder, made)
        ran = time.monotonic()
        judges: list[BenchmarkJudge] = []

        def judge() -> BenchmarkJudge:
            judges.append(BenchmarkJudge(knowing(made.known), out / "answers.sqlite"))
            return judges[-1]

        official = OfficialScoring(made.checkout or checkout, python, parallel)
        found = score_officially(out, official, judge, lambda line: print(f"  {line}", flush=True))
        first = time.monotonic()
        again = score_officially(out, official, judge, lambda line: None)
        assert found.judged is not None
        own = {name: value for name, value in found.judged.official.items() if name in made.expected}
        wrong = differences(own, made.expected, made.digits)
        for item, values in made.values.items():
            wrong += [f"{item} {line}" for line in differences(found.values[item], values, 9)]
        wrong += ["the second scoring asked the judge"] * bool(judges[1].asked)
        wrong += ["the second scoring found other figures"] * (found.values != again.values)
        return {
            "items": found.items,
            "figures": own,
            "questions": judges[0].asked,
            "asked again": judges[1].asked,
            "wrong": wrong,
            "run_s": round(ran - begun, 1),
            "score_s": round(first - ran, 1),
            "again_s": round(time.monotonic() - first, 1),
        }
