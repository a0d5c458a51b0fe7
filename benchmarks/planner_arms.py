"""Arms of the planner reinforcement benchmark (planner_reinforcement.py): their trainings and evaluations.

The first fine-tuning mixes short stories in unfamiliar phrasing with stories of all lengths in the usual one.
A planner that has never written a sixth step does not sample one either, and only what is sampled can be
reinforced. Every stage leaves a file and is not repeated, so that a stopped benchmark can be continued.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from interleave_thinker.backend.errors import TrainingError
from interleave_thinker.backend.prompts import prompt_set_of
from interleave_thinker.tinyworld.lab.ablation.measures import ATTEMPTS, oracle_verdicts, run_stories_together
from interleave_thinker.tinyworld.lab.ablation.stages import log_in
from interleave_thinker.tinyworld.lab.planning.rows import StoryKind, make_planner_rl, make_stories_sft
from interleave_thinker.tinyworld.lab.planning.simulated_world import SimulatedWorld
from interleave_thinker.tinyworld.lab.world.requests import TinyStory
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.training.data.rows.planner_rl import PlannerRlRow, planner_question, read_planner_rl
from interleave_thinker.training.data.rows.row_sets import RowSet
from interleave_thinker.training.data.rows.sft import SftMessage, SftRow, read_rows, write_rows
from interleave_thinker.training.gate.held_out import greedy_answers
from interleave_thinker.training.gate.monitored_run import TrainingData
from interleave_thinker.training.grpo.planner_settings import PlannerGrpoTraining, split_planner_rows
from interleave_thinker.training.grpo.planner_task import PlannerTask
from interleave_thinker.training.grpo.train import train as reinforce
from interleave_thinker.training.reward.plans.judging import JudgingSettings, PlanJudging
from interleave_thinker.training.reward.plans.reward import PlanSample, plan_samples
from interleave_thinker.training.reward.plans.terms import PlanRewardSettings, plan_in
from interleave_thinker.training.sft.data import SftData
from interleave_thinker.training.sft.settings import SftTraining
from interleave_thinker.training.sft.train import train as fine_tune

TOKENS, BATCH = 240, 128
LEARNED, KEPT = StoryKind(3, 4, "other"), StoryKind(2, 6, "usual")
REINFORCED = StoryKind(5, 6, "other")
ASKED = {"longer": StoryKind(5, 6, "other"), "unseen": StoryKind(5, 6, "unseen")}
ARMS = ("start", "grpo", "rejection", "more")
GROUP = 8
FIXED = {
    "tokens": TOKENS,
    "group": GROUP,
    "judge": SimulatedWorld.identity,
    "stories": {
        name: asdict(kind)
        for name, kind in {"learned": LEARNED, "kept": KEPT, "rl": REINFORCED, **ASKED}.items()
    },
}
"""Settings of the stages in addition to their scale."""
AT_ONCE = BATCH // GROUP
"""Number of requests that are sampled together."""
MAX_DOUBLED = 10
"""Maximum ratio of searched stories to rows; rows leave out duplicate requests."""


@dataclass(frozen=True)
class Scale:
    """Size of the trainings and evaluations."""

    learned: int
    rollouts: int
    updates: int
    prompts: int
    stories: int
    rate: float
    temperature: float

    @property
    def reinforced(self) -> int:
        """Number of requests for reinforcement learning."""
        return self.rollouts * self.prompts


def sft(start: Path, rows: RowSet, out: Path, rate: float, seed: int) -> Path:
    """Fine-tune a planner on rows."""
    settings = SftTraining(
        num_train_epochs=1, per_device_train_batch_size=16, learning_rate=rate, warmup_steps=0.05,
        weight_decay=0.01, adam_beta2=0.98, freeze_vision=False, save_steps=250, device="cpu",
        save_dtype="float16", seed=seed, samples=0, tensorboard=False,
    )  # fmt: skip
    return fine_tune(start, SftData(rows), out, settings, prompt_set_of(start), log_in(out))


class Answering:
    """The planner in a folder; answers rows in batches."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModelForImageTextToText, AutoProcessor

        self.model: Any = AutoModelForImageTextToText.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, use_safetensors=True, dtype=torch.float32
        )
        self.processor: Any = AutoProcessor.from_pretrained(folder, local_files_only=True)
        self.processor.tokenizer.padding_side = "left"
        self.model.generation_config.cache_implementation = "static"  # as reinforcement's, and faster
        prompt_set = prompt_set_of(folder)
        assert prompt_set is not None
        self.prompt_set = prompt_set

    def answers(
        self, rows: list[PlannerRlRow], folder: Path, temperature: float = 0.0, tokens: int = TOKENS
    ) -> list[str]:
        """Return the planner's answers to rows, of at most this many tokens."""
        asked = [planner_question(row, folder, folder / "shown", self.prompt_set) for row in rows]
        return greedy_answers(self.model, self.processor, asked, tokens, BATCH, temperature)[0]


def judged(answers: list[str], rows: list[PlannerRlRow], folder: Path) -> list[PlanSample]:
    """Score plans with the exact judge."""
    import asyncio

    judging = PlanJudging(SimulatedWorld(), JudgingSettings())
    return asyncio.run(plan_samples(answers, rows, judging, PlanRewardSettings(), folder))


class Seed:
    """The stages of one seed below a folder."""

    def __init__(self, out: Path, seed: int, scale: Scale) -> None:
        self.out, self.seed, self.scale = out / f"seed-{seed}", seed, scale

    def planner(self, arm: str) -> Path:
        """Return the checkpoint of an arm."""
        return self.out / arm / "final"

    def rows(self, name: str, count: int, kind: StoryKind, asked: bool = False) -> Path:
        """Return the data file of requests; it is created if missing."""
        path = self.out / name / "planner_rl.jsonl"
        if not path.exists():
            make_planner_rl(path.parent, count, self.seed, kind, "evaluate" if asked else "train")
        return path

    def run(self) -> None:
        """Run all stages."""
        first, more = self.taught()
        timed = self.timed
        timed("start", lambda: sft(checkpoint("planner"), first, self.out / "start", 1e-3, self.seed))
        timed("grpo", self.reinforced)
        timed("rejection", self.rejection)
        timed("more", lambda: sft(self.planner("start"), more, self.out / "more", 3e-4, self.seed))
        for arm in ARMS:
            timed(f"asked-{arm}", lambda arm=arm: self.asked(arm))

    def taught(self) -> tuple[RowSet, RowSet]:
        """Return the rows of the first fine-tuning, half of each kind, and the additional rows of `more`."""
        learned, more = self.scale.learned, self.scale.reinforced // 2
        first: list[SftRow] = []
        then: list[SftRow] = []
        for name, kind in (("few", LEARNED), ("kept", KEPT)):
            path = self.out / name / "planner_sft.json"
            if not path.exists():
                make_stories_sft(path.parent, learned + more, self.seed, kind)
            rows = RowSet(read_rows(path), path.parent).moved(self.out).rows
            first += rows[:learned]
            then += rows[learned:]
        return RowSet(first, self.out), RowSet(then, self.out)

    def timed(self, name: str, work: Callable[[], object]) -> None:
        """Do the work, unless the file with its time exists."""
        path = self.out / f"{name}.json"
        if path.exists():
            return
        began, processor = time.monotonic(), time.process_time()
        work()
        taken = {"seconds": time.monotonic() - began, "processor": time.process_time() - processor}
        path.write_text(json.dumps(taken))
        print(f"seed {self.seed}: {name} {taken['processor']:.0f} s of the processor", flush=True)

    def reinforced(self) -> None:
        """Train the arm `grpo`."""
        scale = self.scale
        path = self.rows("rl", scale.reinforced + 64, REINFORCED)
        settings = PlannerGrpoTraining(
            learning_rate=scale.rate, weight_decay=0.01, temperature=scale.temperature, prompts=scale.prompts,
            num_generations=GROUP, updates=scale.updates, per_device_train_batch_size=32,
            rollouts=scale.rollouts, max_completion_length=TOKENS, device="cpu",
            save_dtype="float16", save_every=max(1, scale.rollouts // 4), check_rows=48, check_batch=48,
            tensorboard=False, seed=self.seed,
        )  # fmt: skip
        rows, held = split_planner_rows(read_planner_rl(path)[0], settings)
        task = PlannerTask(SimulatedWorld(), PlanRewardSettings(), JudgingSettings(), path.parent)
        data = TrainingData(rows, held, path.parent)
        reinforce(self.planner("start"), data, self.out / "grpo", settings, task, log_in(self.out / "grpo"))

    def rejection(self) -> None:
        """Train on the best of eight own plans for each request of grpo."""
        import torch

        path = self.rows("rl", self.scale.reinforced + 64, REINFORCED)
        rows = read_planner_rl(path)[0][: self.scale.reinforced]
        made = self.out / "rejection.rows.json"
        if not made.exists():
            torch.manual_seed(self.seed)
            planner = Answering(self.planner("start"))
            rewarded = partial(judged, folder=path.parent)
            write_rows(made, best_answers(planner, rows, path.parent, rewarded, self.scale.temperature))
        rows = RowSet(read_rows(made), made.parent)
        sft(self.planner("start"), rows, self.out / "rejection", 3e-4, self.seed)

    def asked(self, arm: str) -> None:
        """Measure an arm's plans for each kind of story.

        A plan is exact if its steps lead to the correct scenes. A story is correct if it succeeds with the
        plan, the shipped generator, an oracle critic and three attempts.
        """
        planner = Answering(self.planner(arm))
        found = {}
        for name, kind in ASKED.items():
            path = self.rows(name, self.scale.stories, kind, asked=True)
            rows = read_planner_rl(path)[0]
            answers = planner.answers(rows, path.parent)
            samples = judged(answers, rows, path.parent)
            plans = [plan_in(answer) for answer in answers]
            told = run_stories_together(self.stories(rows, kind), plans, oracle_verdicts, (ATTEMPTS,))[
                ATTEMPTS
            ]
            found[name] = {
                "exact": [bool(sample.exact) for sample in samples],
                "right": [story.right for story in told],
                "match": sum(sample.match for sample in samples) / len(samples),
                "steps": sum(sample.steps for sample in samples) / len(samples),
            }
        (self.out / f"{arm}.found.json").write_text(json.dumps(found))

    def stories(self, rows: list[PlannerRlRow], kind: StoryKind) -> list[TinyStory]:
        """Return the stories that these rows were made from, in order.

        Raises:
            TrainingError: If the rows were made by another version of the world.
        """
        made = islice(kind.stories(f"planner rl/{self.seed}", "evaluate"), MAX_DOUBLED * len(rows))
        found = []
        for row in rows:
            same = (one for one in made if one.text == row.request and list(one.plan.steps) == row.reference)
            story = next(same, None)
            if story is None:
                raise TrainingError(
                    f"No story matches the request {row.request!r} in {self.out}.",
                    "It was created by another version. Choose another --out.",
                )
            found.append(story)
        return found

    def found(self, arm: str) -> dict[str, Any]:
        """Return the results of an arm."""
        return json.loads((self.out / f"{arm}.found.json").read_text())


def best_answers(
    planner: Answering,
    rows: list[PlannerRlRow],
    folder: Path,
    rewarded: Callable[[list[str], list[PlannerRlRow]], list[PlanSample]],
    temperature: float,
    tokens: int = TOKENS,
) -> list[SftRow]:
    """Return rows that teach the best of eight answers to each row, by their reward. Ties go to the first.

    A row whose best answer has nothing of what is requested is left out.
    """
    best: list[SftRow] = []
    for start in range(0, len(rows), AT_ONCE):
        some = [row for row in rows[start : start + AT_ONCE] for _ in range(GROUP)]
        samples = rewarded(planner.answers(some, folder, temperature, tokens), some)
        for place in range(0, len(some), GROUP):
            chosen = max(samples[place : place + GROUP], key=lambda sample: sample.overall or 0.0)
            if chosen.match > 0:
                best.append(_taught(some[place], chosen.answer, folder, planner))
    return best


def _taught(row: PlannerRlRow, answer: str, folder: Path, planner: Answering) -> SftRow:
    from interleave_thinker.training.data.rows.conversations import MARK

    asked = planner_question(row, folder, folder / "shown", planner.prompt_set)
    parts = asked["prompt"][0]["content"]
    text = "".join(MARK if part["type"] == "image" else part["text"] for part in parts)
    turns = [SftMessage(role="user", content=text), SftMessage(role="assistant", content=answer)]
    return SftRow(messages=turns, images=[f"{folder.name}/{name}" for name in row.images])
