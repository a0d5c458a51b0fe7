"""The node by which a person's word on an image becomes training data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from comfy_api.latest import io
from pydantic import ValidationError

from ...backend.chat.protocol import ChatModel
from ...backend.errors import SettingsError
from ...backend.feedback.log import Feedback, read_feedback, record_feedback
from ...backend.journal.files import first_fault
from ...backend.journal.journal import RUN
from ...backend.types import Trajectory
from .. import host
from ..inputs.run_folder import PARENT, run_folder
from ..inputs.sockets import CATEGORY, AgentSocket, TrajectorySocket

ACCEPT, REJECT, BETTER, TAKE_BACK = "accept", "reject", "better prompt", "take back"
KEPT = 0
FOLDER = "feedback"


class FeedbackNode(io.ComfyNode):
    """Records a person's word on one image and makes a training row of it."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveFeedback",
            display_name="Feedback",
            category=CATEGORY,
            description="Your word on an image, which wins over the critic's. It is kept with the run, and "
            "as a row in "
            "output/interleave-thinker/feedback/critic_sft.json, which `interleave-thinker train "
            "critic-sft` reads.",
            search_aliases=["rate", "thumbs up", "thumbs down", "correct critic", "training data", "label"],
            is_output_node=True,
            inputs=[
                TrajectorySocket.Input("trajectory", tooltip="From a Critic Loop or Load Trajectory."),
                io.Int.Input("step", default=1, min=1, max=1_000_000, tooltip="Number of the step."),
                io.Int.Input(
                    "attempt",
                    default=KEPT,
                    min=KEPT,
                    max=1_000,
                    tooltip="Number of the try, as the report counts them; 0 is the kept one.",
                ),
                io.Combo.Input(
                    "word",
                    options=[ACCEPT, REJECT, BETTER, TAKE_BACK],
                    default=ACCEPT,
                    tooltip="Whether the image shows what the step's prompt asks for. A better prompt "
                    "rejects it and says "
                    "what should be drawn with; take back removes what you said before.",
                ),
                io.String.Input(
                    "better_prompt",
                    multiline=True,
                    default="",
                    tooltip=(
                        "The prompt that should have been drawn with next; looked at when the word is "
                        "better prompt."
                    ),
                ),
                io.String.Input(
                    "reason",
                    multiline=True,
                    default="",
                    optional=True,
                    tooltip="Why, in your words; the critic learns it as its reasoning.",
                ),
                AgentSocket.Input(
                    "critic",
                    optional=True,
                    tooltip="The agent that is to learn from it: the row is asked in its own wording. "
                    "Without one, in the pack's.",
                ),
            ],
            outputs=[
                io.String.Output("path", tooltip="The training data file."),
                io.Int.Output("rows", tooltip="Rows in that file now."),
            ],
        )

    @classmethod
    def execute(
        cls,
        trajectory: Trajectory,
        step: int,
        attempt: int,
        word: str,
        better_prompt: str,
        reason: str = "",
        critic: ChatModel | None = None,
    ) -> io.NodeOutput:
        from ...backend.feedback.rows import add_feedback_rows, find_attempt

        said = feedback_of(trajectory, step, attempt, word, better_prompt, reason)
        said = said.model_copy(update={"image": find_attempt(trajectory, said)[2].digest})
        run = run_folder(host.output_folder(), trajectory.request)
        words = keep_with_run(run, said)
        data = add_feedback_rows(
            host.output_folder() / PARENT / FOLDER, trajectory, words, critic and critic.prompt_set
        )
        line = f"{data.rows} rows in {data.path}"
        host.NodeProgress().say(line)
        return io.NodeOutput(str(data.path), data.rows, ui={"text": (line,)})


def feedback_of(
    trajectory: Trajectory, step: int, attempt: int, word: str, better_prompt: str, reason: str
) -> Feedback:
    """What the widgets say. Raises SettingsError if there is no such step, or a better prompt is missing or
    too long."""
    if word not in (ACCEPT, REJECT, BETTER, TAKE_BACK):
        raise SettingsError(
            f"There is no word {word!r}.", f"Known: {ACCEPT}, {REJECT}, {BETTER}, {TAKE_BACK}."
        )
    if word == BETTER and not better_prompt.strip():
        raise SettingsError("The better prompt is empty.", "Write it, or choose reject.")
    if attempt == KEPT:
        kept = {result.step.number: result.chosen for result in trajectory.results}
        if kept.get(step) is None:
            known = ", ".join(str(number) for number, chosen in kept.items() if chosen is not None)
            raise SettingsError(f"Step {step} has no kept image.", f"Steps with one: {known or 'none'}.")
    index = kept[step] if attempt == KEPT else attempt - 1
    values: dict[str, Any] = {"step": step, "attempt": index}
    if word != TAKE_BACK:
        values |= {"accepted": word == ACCEPT, "note": reason.strip() or None}
    if word == BETTER:
        values["better_prompt"] = better_prompt.strip()
    try:
        return Feedback(**values)
    except ValidationError as error:
        raise SettingsError(f"This cannot be feedback{first_fault(error)}") from error


def keep_with_run(run: Path, said: Feedback) -> list[Feedback]:
    """Record the word in the run's folder; returns it after all earlier words on that run that name their
    images.

    A story from elsewhere has no run here: its words are in the training data alone.
    """
    if not (run / RUN).is_file():
        return [said]
    record_feedback(run, said)
    others = [word for word in read_feedback(run) if (word.step, word.attempt) != (said.step, said.attempt)]
    return [*(word for word in others if word.image), said]
