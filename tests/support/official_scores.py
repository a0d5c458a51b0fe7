"""The five official evaluators, unchanged, on miniatures with known answers and expected figures.

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

from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.seams.chat_model import Message, Reply, ReplySettings
from interleave_thinker.backend.core.types import Plan, Step
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.story.agents.planner import Planner
from interleave_thinker.research.data.trajectories.engine import Teachers
from interleave_thinker.research.evaluation.judge import BenchmarkJudge
from interleave_thinker.research.evaluation.official_scoring import OfficialScoring, score_officially
from interleave_thinker.research.evaluation.submission import collect

TOKEN = re.compile(r"\b[a-z]\d{2,4}\b")
LEVELS = (32, 96, 160, 224)
WEIGHTS = (0.40, 0.12, 0.12, 0.12, 0.12, 0.12)
WISE_ENDS = (400, 520, 640, 760, 880, 1000)


def color_of(token: str) -> tuple[int, int, int]:
    """Return a color for a token, far from those of all others."""
    number = int(token[1:].rstrip("ct")) * 2 + token.endswith("t")
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
        if token.startswith("m"):
            token += "t" if "Show with a picture" in text else "c"
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


def wise(folder: Path, rng: random.Random, checkout: Path) -> Miniature:
    made = Miniature(folder / "merge.json", digits=2)
    rows = []
    for n in range(1, 1001):
        met = rng.random() < 0.7
        made.known.append({"text": f'"Draw thing w{n:04}"', "met": met})
        made.values[str(n)] = {"right": float(met)}
        rows.append(
            {"Prompt": f"Draw thing w{n:04}", "Explanation": "It is that thing.", "prompt_id": n}
            | {"Category": "ours", "Subcategory": "ours"}
        )
    made.data.write_text(json.dumps(rows))
    means, first = [], 1
    for last in WISE_ENDS:
        means.append(fmean(made.values[str(n)]["right"] for n in range(first, last + 1)))
        first = last + 1
    made.expected["overall WiScore"] = sum(w * mean for w, mean in zip(WEIGHTS, means, strict=True))
    return made


def rise(folder: Path, rng: random.Random, checkout: Path) -> Miniature:
    made = Miniature(folder / "data.json")
    rows = []
    for n in range(16):
        token = f"r{n:02}"
        kind = ("temporal", "causal", "spatial", "logical")[n % 4]
        consistent, reasoned, plausible = (rng.random() < 0.75 for _ in range(3))
        name = picture(folder / f"{token}.png")
        rows.append(
            {"index": f"{kind}_{n}", "category": f"{kind}_reasoning", "instruction": f"Edit {token}."}
            | {"image": name, "reference": f"As {token}.", "subtask": "Ours"}
        )
        if kind == "logical":
            rows[-1]["reference_txt"] = f"As {token}."
        made.known += [
            {"text": f"{token}.", "pictures": 2, "met": consistent},
            {"text": f"{token}.", "pictures": 1, "met": reasoned},
            {"pictures": 1, "color": color_of(token), "met": plausible},
        ]
        c, r, q = (5 if one else 1 for one in (consistent, reasoned, plausible))
        score = 0.3 * c + 0.7 * r if kind == "logical" else 0.3 * c + 0.5 * r + 0.2 * q
        if r == 1:
            score = max(1.0, score * 0.5)
        complete = c == r == 5 and (kind == "logical" or q == 5)
        made.values[f"{kind}_{n}"] = {"accuracy": float(complete), "score": (score - 1) / 4}
    made.data.write_text(json.dumps(rows))
    made.expected["accuracy"] = fmean(one["accuracy"] for one in made.values.values())
    made.expected["score"] = 100 * fmean(one["score"] for one in made.values.values())
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


def comm(folder: Path, rng: random.Random, checkout: Path) -> Miniature:
    made = Miniature(folder / "comm.json")
    rows = []
    names = {"style_consistency": "style consistency", "entity_consistency": "entity consistency"}
    names |= {"trend_consistency": "trend consistency", "completeness": "completeness"}
    names |= {"image quality": "image quality", "overall_consistency": ""}
    for n in range(8):
        token = f"m{n:02}"
        steps = []
        for at in range(4):
            name = picture(folder / f"{token}_{at}.png")
            words = {"type": "text", "content": f"Do part {at}."}
            steps.append([words, {"type": "image", "image_path": name}])
        rows.append({"data_id": token, "title": f"Thing {token}", "step_info": steps})
        for task, mark in (("task3", "c"), ("task4", "t")):
            values = made.values[f"{token}_{task}"] = {}
            for name, metric in names.items():
                met = rng.random() < 0.7
                made.known.append({"text": f"of {token}{mark}.", "about": name, "met": met})
                if metric:
                    values[metric] = float(met)
            met = rng.random() < 0.7
            made.known.append({"about": "text fidelity", "color": color_of(f"{token}{mark}"), "met": met})
            values["text fidelity"] = float(met)
    made.data.write_text(json.dumps(rows))
    official = {name: name for name in names if names[name] and " " not in name}
    official |= {"Image_Quality": "image quality", "text fidelity to images": "text fidelity"}
    for task in ("task3", "task4"):
        ones = [values for name, values in made.values.items() if name.endswith(task)]
        for name, metric in official.items():
            made.expected[f"{task} {name}"] = 10 * fmean(one[names.get(metric) or metric] for one in ones)
    return made


MINIATURES = {"ueval": ueval, "wise": wise, "rise": rise, "specv": specv, "comm": comm}


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
