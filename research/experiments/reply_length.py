"""Measures what shorter replies do to verdicts: the tiny world's critic, taught to answer in three forms.

    OMP_NUM_THREADS=1 python -m research.experiments.reply_length runs/reply_length

The forms are those of the prompt sets `default`, `verdict-first` and `short`. Like own critics, they all
start from a critic that reasons first (the novice). They learn the same filtered attempts, in an order that
depends on the seed. New images are judged, half of them right; stories run with their own plans. The output
is each form's mean and its difference from `default`, with 95 % intervals. Run it again to continue.
"""

from __future__ import annotations

import json
import re
import sys
from math import nan
from pathlib import Path
from statistics import fmean

from interleave_thinker.backend.core.answers.reading import read_verdict, write_verdict
from interleave_thinker.backend.core.prompts.prompt_set import NAMES
from interleave_thinker.backend.models.chat.local.base_model import load_processor
from interleave_thinker.research.tinyworld.ablation import measures, training
from interleave_thinker.research.tinyworld.data.critic_rows import make_mistakes
from interleave_thinker.research.tinyworld.data.trajectories import make_filtered
from interleave_thinker.training.gate.measures import JudgedRows, answers_of
from interleave_thinker.training.rows.sft import RowSet
from interleave_thinker.training.statistics import UNBOUNDED, two_level_mean

NOVICE = Path("tests/data/agents/novice")
SETTINGS = training.AblationSettings(critic_rows=640, judged=240, stories=24)
SEEDS = range(101, 106)


def in_form(answer: str, form: str) -> str:
    """Return a verdict as an answer of this form; shorter ones name one cell. Other answers stay."""
    if form == "default" or "<answer>" not in answer:
        return answer
    verdict = read_verdict(answer)
    page, *cells, so = verdict.reasoning.split("; ")
    telling = r"was (.+) want (?!\1 see)" if verdict.success else r"\bno\b"
    reason = next((one for one in [*cells, page] if re.search(telling, one)), page)
    if form == "short":
        reason = f"{reason}; {so}"
    elif verdict.success:
        reason = ""
    return write_verdict(verdict.model_copy(update={"reasoning": reason}), form == "verdict-first")


def judged(critic: Path, rows: RowSet, seed: int) -> dict[str, float]:
    """Return the measures of a critic: judged images as in a run, and stories."""
    agent, tokenizer = training.agent_in(critic, SETTINGS), load_processor(critic).tokenizer
    answers, stories = answers_of(agent.critic, rows, at_a_time=64), measures.stories_of(SETTINGS, seed)
    found, plans = JudgedRows("", rows, answers).measured, [story.plan for story in stories]
    told = measures.run_stories_together(stories, plans, agent.judge, (measures.ATTEMPTS,))[measures.ATTEMPTS]

    def tokens(said: bool) -> float:
        # In use a reply ends at *true*.
        texts = ["".join(one.text.partition("true")[:2]) for one in answers if one.success is said]
        return fmean([len(tokenizer(text)["input_ids"]) for text in texts] or [0])

    return {
        "verdicts right": found.accuracy.rate,
        "right images accepted": found.true_recall.rate,
        "wrong images rejected": found.false_recall.rate,
        "AUC of P(success)": found.auc.auc if found.auc else nan,
        "steps right": fmean(right for story in told for right in story.steps),
        "stories right": fmean(story.right for story in told),
        "tokens of a reply that accepts": tokens(True),
        "tokens of a reply that rejects": tokens(False),
    }


def of_seed(out: Path, form: str, seed: int) -> dict[str, float]:
    """Return the measures of the critic that answers in this form; it is trained if needed."""
    stored, generator, first = out / f"{form}_{seed}.json", training.open_generator(), SEEDS[0]
    if not stored.exists():
        rows = training.rows_of(out, lambda data: make_filtered(data, generator, SETTINGS.critic_rows, first))
        images = out / "images"
        new = training.rows_of(images, lambda data: make_mistakes(data, generator, SETTINGS.judged, first))
        for row in rows:
            row.messages[-1].content = in_form(row.messages[-1].content, form)
        settings = training.sft_settings(training.CRITIC_RATE, seed)
        critic = training.fine_tuned(NOVICE, rows, out / "data", out / f"{form}_{seed}", settings)
        result = judged(critic, RowSet(new, images / "data"), seed)
        stored.write_text(json.dumps(result), encoding="utf-8")
    return json.loads(stored.read_text(encoding="utf-8"))


def main(out: Path) -> None:
    """Run the experiment in a folder and print its table."""
    found = {form: [of_seed(out, form, seed) for seed in SEEDS] for form in NAMES}
    for title in found["default"][0]:
        print(title)
        for form, ones in found.items():
            less = [[one[title] - first[title]] for one, first in zip(ones, found["default"], strict=True)]
            mean = two_level_mean([[one[title]] for one in ones])
            print(f"  {form}: {mean}; {two_level_mean(less, UNBOUNDED)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
