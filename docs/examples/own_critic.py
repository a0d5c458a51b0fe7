# %% [markdown]
# # From 30 annotated attempts to your own critic
#
# A critic judges images by what it was trained on. If your image model makes a mistake that the critic has
# never seen, the critic accepts it. Here you annotate 30 attempts, train a critic of your own from them, and
# let it judge new stories.
#
# Everything runs in the tiny world, on a CPU and without a download. It takes a few minutes on an
# idle computer. For an 8B critic the steps are the same: see *Train your own critic* in the documentation.
#
# Install with `pip install ".[training]"` in a checkout. Everything is written into the folder `own-critic`;
# delete it before you run this again with other numbers.

# %%
import random
from itertools import count
from pathlib import Path

from PIL import Image

from interleave_thinker import Pipeline, RunSettings, open_generator
from interleave_thinker.backend.output.feedback_log import record_feedback
from interleave_thinker.cli import app
from interleave_thinker.research.tinyworld.shifted_generator import feedback_on, shifted_generator
from interleave_thinker.research.tinyworld.world.requests import random_story
from interleave_thinker.tinyworld.oracle import OracleCritic
from interleave_thinker.tinyworld.scorer import faults, read_image
from interleave_thinker.training.statistics import share

WORK = Path("own-critic")


def command(*arguments):
    """Run `interleave-thinker` with these arguments, as in a terminal."""
    code = app([str(argument) for argument in arguments], standalone_mode=False)
    assert not code, f"exit code {code}"


# %% tags=["parameters"]
ATTEMPTS = 30  # attempts to annotate
OLD_ROWS = 200  # rows of the kind that the critic learned from before
EPOCHS = 12  # passes over all rows
LEAST_ROWS = 20  # fewer rows are refused; by default fewer than 40
LEAST_STEPS = 20  # fewer optimizer steps are refused
STORIES = 20  # new stories that both critics judge

# %% [markdown]
# ## 1. A generator with a mistake that the critic does not know
#
# It often cuts off the top of a new object. A prompt that names the place of the object once more prevents
# this, so a critic that sees the mistake can correct it. The requests are random.

# %%
generator = shifted_generator(open_generator("tinyworld"), 0.8)
rng = random.Random(1)


def new_story(split):
    """Return a random story that begins without an image."""
    return next(story for story in (random_story(rng, split) for _ in count()) if story.before is None)


# %% [markdown]
# ## 2. Run stories, and annotate 30 attempts
#
# You would look at each attempt, accept or reject it, and write why. Here a program that knows the truth does
# this. The thumbs in ComfyUI, the Feedback node and `interleave-thinker data feedback` write the same file.

# %%
pipeline = Pipeline("tinyworld", generator, "tinyworld", settings=RunSettings(max_attempts=2))
oracle = OracleCritic()
shown, rejected, overruled = [], 0, 0
for number in count():
    run = WORK / "runs" / f"story-{number:02}"
    for result in pipeline(new_story("train").text, run).steps:
        prompt = result.step.prompt or ""
        for index, attempt in enumerate(result.attempts):
            feedback = feedback_on(result.step.number, index, prompt, attempt)
            if feedback is None or len(shown) == ATTEMPTS:
                continue
            why = oracle.answer(attempt.source, attempt.image, prompt, attempt.prompt, feedback.accepted)
            note = why.reasoning if why else None
            record_feedback(run, feedback.model_copy(update={"note": note}))
            shown.append(attempt.image.image)
            rejected += not feedback.accepted
            overruled += attempt.verdict.success != feedback.accepted
    if len(shown) == ATTEMPTS:
        break
    if number % 4 == 3:
        print(f"{len(shown)} of {ATTEMPTS} attempts annotated")
print(
    f"{ATTEMPTS} attempts in {number + 1} stories, {rejected} of them wrong. "
    f"The critic was wrong about {overruled}."
)

# %%
sheet = Image.new("RGB", (600, 60 * -(-len(shown) // 10)), "white")
for index, image in enumerate(shown):
    sheet.paste(image.resize((58, 58)), (60 * (index % 10), 60 * (index // 10)))
sheet

# %% [markdown]
# ## 3. Train
#
# Old rows are mixed in, so that the critic does not forget what it knew. Then the gate compares both critics
# on old rows that were not trained on, and publishes the new one only if it has not become worse.

# %%
command("data", "tinyworld-critic", "--rows", OLD_ROWS, "--out", WORK / "old")
command(
    *("train", "own-critic", WORK / "runs", "--config", "tiny", "--init", "tinyworld:critic"),
    *("--old", WORK / "old" / "critic_sft.json", "--out", WORK / "critic"),
    *("--num-train-epochs", EPOCHS, "--set", f"least_rows={LEAST_ROWS}"),
    *("--set", f"least_steps={LEAST_STEPS}", "--set", "held_out_runs=0"),
)

# %% [markdown]
# ## 4. Your critic in the loop
#
# Both critics judge new stories with up to three attempts for each step. The tiny world's scorer knows which
# verdicts and which stories are right. From so few stories, the two intervals can overlap: more annotations
# and more stories show more.

# %%
stories = [new_story("evaluate") for _ in range(STORIES)]
found = []
for name, critic in (("old", "tinyworld"), ("own", f"transformers:{WORK / 'critic' / 'final'}")):
    loop = Pipeline("tinyworld", generator, critic, settings=RunSettings(max_attempts=3, seed=7))
    verdicts, correct = [], 0
    for number, story in enumerate(stories):
        results = loop(story.text, WORK / name / f"story-{number:02}").steps
        for result in results:
            for index, attempt in enumerate(result.attempts):
                truth = feedback_on(result.step.number, index, result.step.prompt or "", attempt)
                if truth is not None:
                    verdicts.append(attempt.verdict.success == truth.accepted)
        seen = [read_image(result.image) for result in results if result.image is not None]
        if len(seen) == len(story.pages):
            correct += not any(faults(page, image) for page, image in zip(story.pages, seen, strict=True))
        if number % 5 == 4:
            print(f"{name} critic: {number + 1} of {STORIES} stories judged")
    found.append(share(verdicts))
    print(f"{name} critic: {correct} of {STORIES} stories correct, right verdicts (95 % CI): {found[-1]}")
old, own = found
overlap = "do not overlap" if own.low > old.high or old.low > own.high else "overlap, so either may be better"
print(f"The two intervals of right verdicts {overlap}.")
