"""Measures in the tiny world what a critic of clips is worth, and how many frames it needs.

    OMP_NUM_THREADS=1 python -m benchmarks.clips --critic clip-critic

Stories of five exact images; the four clips between them are exact except for planted faults
(tinyworld/lab/clips/planted.py): a jump, a thing that vanishes for a time, a wrong direction. Half of the
faults occur with every seed until a clause of the prompt prevents them. A critic is fine-tuned from the
shipped one first, in the folder --critic, on clips of which it sees 2, 3 or 5 frames; a finished one is used
again.

Verdicts are measured on clips with one fault or none, of steps of evaluation stories, also with a fault that
is in no training row (a stranger). Stories run through the regular attempts (pipeline/clips). All arms
have the same stories and seeds, so differences are paired. A story counts only if all frames of all its clips
are exact. Arms: without judging, the trained critic with 2, 3 and 5 frames, an oracle, and the oracle whose
refined prompts are dropped, so that attempts differ by the seed alone. With --unseen, strangers are among the
faults.

Expected before the first run: with 2 frames only a wrong direction is found; with 3 frames also every jump
and about two thirds of the vanished things; with 5 frames nearly all. A stranger is found less often than a
vanished thing. The first run refuted the expectation about 5 frames: after the same training the critic reads
them worse than 3. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random

from interleave_thinker.backend.loop.policy import choose
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.pipeline.clips.attempts import ClipResult, ClipRun, JudgesClips
from interleave_thinker.backend.types import RunSettings, Verdict
from interleave_thinker.backend.types.clip import ClipMaker, ClipPair, Footage
from interleave_thinker.tinyworld.lab.clips.critic import (
    ROWS,
    BatchedClipCritic,
    SharedClipCritic,
    train_clip_critic,
)
from interleave_thinker.tinyworld.lab.clips.in_between import ClipScript, frames_of
from interleave_thinker.tinyworld.lab.clips.oracle import OracleClipCritic, fault_in
from interleave_thinker.tinyworld.lab.clips.planted import (
    HELD_OUT,
    TRAINED,
    ClipPrompt,
    Kind,
    TinyClips,
    plant,
    read_clip_prompt,
)
from interleave_thinker.tinyworld.lab.runs.batched_tasks import BatchedTasks
from interleave_thinker.tinyworld.lab.world.requests import random_story
from interleave_thinker.tinyworld.runtime.drawing import draw
from interleave_thinker.tinyworld.runtime.scene import Edit, Scene
from interleave_thinker.training.statistics.intervals import paired_difference, share

STEPS = 5
COUNTS = (1, 3, 5)
Story = Sequence[ClipPair]


class Remembered:
    """Makes each clip once, for all arms."""

    def __init__(self, maker: ClipMaker) -> None:
        self._maker, self.identity = maker, maker.identity
        self._made: dict[tuple[str, int], Footage] = {}

    def make(self, pair: ClipPair, seed: int) -> Footage:
        """Return the frames of a clip."""
        key = pair.key, seed
        if key not in self._made:
            self._made[key] = self._maker.make(pair, seed)
        return self._made[key]


class SeedOnly:
    """A critic whose refined prompts are dropped."""

    def __init__(self, critic: JudgesClips) -> None:
        self._critic, self.identity = critic, f"{critic.identity} without prompts"

    def judge_clip(self, frames: Sequence[Picture], original_prompt: str, prompt_used: str) -> Verdict:
        """Return the verdict with the prompt that was used."""
        verdict = self._critic.judge_clip(frames, original_prompt, prompt_used)
        return verdict.model_copy(update={"refined_prompt": prompt_used})


def stories_of(count: int, seed: int) -> list[list[tuple[Scene, ClipPair]]]:
    """Return stories of the evaluation split: the pairs of their images, each with its first scene."""
    rng, stories = Random(f"clips/{seed}"), []
    for _ in range(count):
        story = random_story(rng, "evaluate", STEPS)
        images = [draw(page) for page in story.pages]
        stories.append(
            [
                (
                    story.pages[at - 1],
                    ClipPair(
                        step=step.number, first=images[at - 1], last=images[at], prompt=step.prompt or ""
                    ),
                )
                for at, step in enumerate(story.plan.steps)
                if at
            ]
        )
    return stories


def edit_of(pair: ClipPair) -> Edit:
    """Return the edit of a step."""
    prompt = read_clip_prompt(pair.prompt)
    assert prompt is not None, pair.prompt
    return prompt.edit


def verdict_figures(critic: BatchedClipCritic, cases: int) -> dict[str, object]:
    """Measure verdicts and refined prompts on clips of held-out stories, for each kind of fault."""
    pairs = [one for story in stories_of(2 * cases // (STEPS - 1), 1_000) for one in story]
    figures: dict[str, object] = {}
    trained: list[bool] = []
    kinds: tuple[Kind | None, ...] = (None, *TRAINED, HELD_OUT)
    for kind in kinds:
        rng, clips = Random(f"verdicts/{kind}"), []
        for before, pair in pairs:
            edit = edit_of(pair)
            script = (
                ClipScript(before, edit.apply(before)) if kind is None else plant(kind, before, edit, rng)
            )
            if script is not None and len(clips) < cases:
                clips.append((frames_of(script), pair.prompt, ClipPrompt(edit).text()))
        verdicts = critic.judge(clips)
        truths = [fault_in(frames, prompt) is None for frames, prompt, _ in clips]
        right = [one.success == truth for one, truth in zip(verdicts, truths, strict=True)]
        trained += right if kind in TRAINED else []
        rejected = [read_clip_prompt(one.refined_prompt) for one in verdicts if one.success is False]
        helps = [bool(one and kind and one.prevents(kind)) for one in rejected] if kind else []
        name = kind or "right"
        figures[name] = {
            "verdicts": share(right).model_dump(),
            "prevents": share(helps).model_dump() if helps else None,
            "unread": sum(one.success is None for one in verdicts),
        }
        print(f"{critic.frames} frames, {name:16s} verdicts right {share(right)}", end="")
        print(f", refined prompts that prevent it {share(helps)}" if helps else "", flush=True)
    print(f"{critic.frames} frames, all trained faults: rejected {share(trained)}", flush=True)
    figures["all trained"] = share(trained).model_dump()
    return figures


def one_story(number: int, story: Story, critic: JudgesClips, maker: ClipMaker) -> list[tuple[bool, ...]]:
    """Make the clips of a story; return for each clip and number of attempts whether it is right, and draws.

    A run with fewer attempts makes the same first ones, so it is read from the longest run.
    """
    settings = RunSettings(max_attempts=COUNTS[-1], seed=number)
    run = ClipRun(maker, critic, settings)
    outcomes = []
    for pair in story:
        result = run.clip(pair)
        outcomes.append(tuple(value for most in COUNTS for value in _outcome(result, pair, most, settings)))
    return outcomes


def _outcome(result: ClipResult, pair: ClipPair, most: int, settings: RunSettings) -> tuple[bool, int]:
    made = result.attempts[:most]
    chosen = choose([one.attempt for one in made], settings)
    footage = made[chosen].footage if chosen is not None else None
    return footage is not None and fault_in(footage.frames, pair.prompt) is None, len(made)


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--critic", type=Path, required=True, help="Folder of the trained critic.")
    parser.add_argument("--rows", type=int, default=ROWS, help="Training rows.")
    parser.add_argument("--frames", type=int, nargs="*", default=[2, 3, 5])
    parser.add_argument("--stories", type=int, default=200)
    parser.add_argument("--cases", type=int, default=200, help="Clips for each kind of fault.")
    parser.add_argument("--seed", type=int, default=1, help="Seed of the stories.")
    parser.add_argument("--unseen", action="store_true", help="Also plant the fault of no training row.")
    options = parser.parse_args()
    kinds = (*TRAINED, HELD_OUT) if options.unseen else TRAINED
    began = time.monotonic()
    checkpoint = train_clip_critic(options.critic, options.rows)
    critics = {count: BatchedClipCritic(checkpoint, count) for count in options.frames}
    seconds = time.monotonic() - began
    figures: dict[str, object] = {}
    maker = Remembered(TinyClips(kinds))
    stories = [[pair for _, pair in story] for story in stories_of(options.stories, options.seed)]
    plain: list[bool] = []

    def measure(name: str, critic: JudgesClips, together: BatchedTasks) -> None:
        tasks = [partial(one_story, number, one, critic, maker) for number, one in enumerate(stories)]
        told = together.run(tasks)
        for at, most in enumerate(COUNTS):
            clips = [bool(clip[2 * at]) for story in told for clip in story]
            right = [all(clip[2 * at] for clip in story) for story in told]
            draws = sum(int(clip[2 * at + 1]) for story in told for clip in story) / len(clips)
            if most == 1:
                # A single attempt is not judged, so it is the arm without judging, the same for all critics.
                if plain:
                    continue
                plain[:] = right
            label = "without judging" if most == 1 else f"{name}, {most} attempts"
            change = paired_difference(right, plain)
            print(
                f"{label:32s} stories {share(right)}, change {change}, clips {share(clips)}, "
                f"{draws:.2f} draws per clip ({time.monotonic() - began:.0f} s)",
                flush=True,
            )
            figures[label] = {
                "stories": share(right).model_dump(),
                "change": change.model_dump(),
                "clips": share(clips).model_dump(),
                "draws": draws,
            }

    alone = BatchedTasks({})
    measure("oracle", OracleClipCritic(), alone)
    measure("oracle, seed only", SeedOnly(OracleClipCritic()), alone)
    for count, one in critics.items():
        figures[f"verdicts, {count} frames"] = verdict_figures(one, options.cases)
        together = BatchedTasks({"judge": one.judge})
        measure(f"{count} frames", SharedClipCritic(together, f"clip critic {count}"), together)
    print(json.dumps({**vars(options), "critic": str(options.critic), "training": seconds, "arms": figures}))


if __name__ == "__main__":
    main()
