"""The node by which a person's feedback on an image becomes training data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from comfy_api.latest import io
from pydantic import ValidationError

from ...backend.chat.protocol import ChatModel
from ...backend.errors import SettingsError
from ...backend.feedback.log import Feedback, read_feedback, record_feedback
from ...backend.journal.files import first_fault
from ...backend.journal.journal import RUN
from ...backend.prompts import PromptSet
from ...backend.types import Trajectory
from .. import host
from ..inputs.connected import AGENT, TRAJECTORY, check_connected, check_optional
from ..inputs.run_folder import PARENT, run_folder
from ..inputs.sockets import CATEGORY, AgentSocket, TrajectorySocket
from ..inputs.validation import fault_of

if TYPE_CHECKING:
    from ...backend.feedback.rows import FeedbackData

ACCEPT, REJECT, BETTER, TAKE_BACK = "accept", "reject", "better prompt", "take back"
CHOSEN = 0
FOLDER = "feedback"


class FeedbackNode(io.ComfyNode):
    """Records a person's feedback on one image and makes a training row of it."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveFeedback",
            display_name="Feedback",
            category=CATEGORY,
            description="Your word on an image, which wins over the critic's. "
            "It is kept with the run, and as a row in output/interleave-thinker/feedback/critic_sft.json, "
            "which `interleave-thinker train critic-sft` reads.",
            search_aliases=["rate", "thumbs up", "thumbs down", "correct critic", "training data", "label"],
            is_output_node=True,
            inputs=[
                TrajectorySocket.Input("trajectory", tooltip="From a Critic Loop or Load Trajectory."),
                io.Int.Input("step", default=1, min=1, max=1_000_000, tooltip="Number of the step."),
                io.Int.Input(
                    "attempt",
                    default=CHOSEN,
                    min=CHOSEN,
                    max=1_000,
                    tooltip="Number of the try, as the report counts them; 0 is the kept one.",
                ),
                io.Combo.Input(
                    "word",
                    options=[ACCEPT, REJECT, BETTER, TAKE_BACK],
                    default=ACCEPT,
                    tooltip="Whether the image shows what the step's prompt asks for. A better prompt "
                    "rejects it and says what should be drawn with; take back removes what you said before.",
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
    def validate_inputs(cls, word: str | None = None, better_prompt: str | None = None) -> bool | str:
        if word is None or better_prompt is None:
            return True
        return fault_of(lambda: spoken(1, 0, word, better_prompt, ""), word=word, better_prompt=better_prompt)

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
        check_connected("Feedback", TRAJECTORY, trajectory=trajectory)
        check_optional("Feedback", AGENT, critic=critic)
        given = feedback_of(trajectory, step, attempt, word, better_prompt, reason)
        data = record(trajectory, given, None if critic is None else critic.prompt_set)
        line = f"{data.rows} {'row' if data.rows == 1 else 'rows'} in {data.path}"
        host.NodeProgress().say(line)
        return io.NodeOutput(str(data.path), data.rows, ui={"text": (line,)})


def feedback_of(
    trajectory: Trajectory, step: int, attempt: int, word: str, better_prompt: str, reason: str
) -> Feedback:
    """What the widgets say. Raises SettingsError if there is no such step, and as `spoken` does."""
    return spoken(
        step,
        chosen_attempt(trajectory, step) if attempt == CHOSEN else attempt - 1,
        word,
        better_prompt,
        reason,
    )


def spoken(step: int, index: int, word: str, better_prompt: str, reason: str) -> Feedback:
    """The feedback on the attempt of this index. Raises SettingsError if the word is unknown, or a better
    prompt is missing or too long."""
    if word not in (ACCEPT, REJECT, BETTER, TAKE_BACK):
        raise SettingsError(
            f"There is no word {word!r}.", f"Known: {ACCEPT}, {REJECT}, {BETTER}, {TAKE_BACK}."
        )
    if word == BETTER and not better_prompt.strip():
        raise SettingsError("The better prompt is empty.", "Write it, or choose reject.")
    values: dict[str, Any] = {"step": step, "attempt": index}
    if word != TAKE_BACK:
        values |= {"accepted": word == ACCEPT, "note": reason.strip() or None}
    if word == BETTER:
        values["better_prompt"] = better_prompt.strip()
    try:
        return Feedback(**values)
    except ValidationError as error:
        raise SettingsError(f"This cannot be feedback{first_fault(error)}") from error


def chosen_attempt(trajectory: Trajectory, step: int) -> int:
    """Index of the attempt whose image a step has kept; raises SettingsError if it has none."""
    chosen = {result.step.number: result.chosen for result in trajectory.results}
    index = chosen.get(step)
    if index is None:
        known = ", ".join(str(number) for number, one in chosen.items() if one is not None)
        raise SettingsError(f"Step {step} has no kept image.", f"Steps with one: {known or 'none'}.")
    return index


def record(trajectory: Trajectory, given: Feedback, prompts: PromptSet | None) -> FeedbackData:
    """Write the feedback into the run's folder and into the training data, whose questions are in the wording
    of `prompts`."""
    from ...backend.feedback.rows import add_feedback_rows, find_attempt

    given = given.model_copy(update={"image": find_attempt(trajectory, given)[2].digest})
    known = record_with_run(
        run_folder(host.output_folder(), trajectory.request, trajectory.settings.seed), given
    )
    return add_feedback_rows(host.output_folder() / PARENT / FOLDER, trajectory, known, prompts)


def record_with_run(run: Path, given: Feedback) -> list[Feedback]:
    """Record the feedback in the run's folder; returns it after all earlier feedback on that run that names
    its image.

    A story from elsewhere has no run here: feedback on it is in the training data alone.
    """
    if not (run / RUN).is_file():
        return [given]
    record_feedback(run, given)
    others = [one for one in read_feedback(run) if (one.step, one.attempt) != (given.step, given.attempt)]
    return [*(one for one in others if one.image), given]
