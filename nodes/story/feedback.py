"""Node that records the user's feedback on an image as training data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from comfy_api.latest import io
from pydantic import ValidationError

from ...backend.core.errors import SettingsError, first_fault
from ...backend.core.prompts.prompt_set import PromptSet
from ...backend.core.seams.chat_model import ChatModel
from ...backend.core.types import Trajectory
from ...backend.output.feedback_log import Feedback, read_feedback, record_feedback
from ...backend.story.journal.run_files import RUN
from .. import host
from ..inputs.run_folder import PARENT, run_folder
from ..inputs.sockets import (
    AGENT,
    TRAJECTORY,
    AgentSocket,
    TrajectorySocket,
    check_connected,
    check_optional,
    node_schema,
)
from ..inputs.validation import fault_of

if TYPE_CHECKING:
    from ...backend.output.sft_rows import FeedbackData

ACCEPT, REJECT, BETTER, TAKE_BACK = "accept", "reject", "better prompt", "take back"
CHOSEN = 0
FOLDER = "feedback"


class FeedbackNode(io.ComfyNode):
    """Records the user's verdict on one image and creates a training row from it."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleaveFeedback",
            is_output_node=True,
            shown=("step", "word", "better_prompt"),
            inputs=[
                TrajectorySocket.Input("trajectory"),
                io.Int.Input("step", default=1, min=1, max=1_000_000),
                io.Int.Input("attempt", default=CHOSEN, min=CHOSEN, max=1_000),
                io.Combo.Input("word", options=[ACCEPT, REJECT, BETTER, TAKE_BACK], default=ACCEPT),
                io.String.Input("better_prompt", multiline=True, default=""),
                io.String.Input("reason", multiline=True, default="", optional=True),
                AgentSocket.Input("critic", optional=True),
            ],
            outputs=[io.String.Output("path"), io.Int.Output("rows")],
        )

    @classmethod
    def validate_inputs(cls, word: str | None = None, better_prompt: str | None = None) -> bool | str:
        """Check inputs before anything runs."""
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
        """Record the feedback."""
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
    """Return the feedback of the node's inputs.

    Raises:
        SettingsError: The step has no kept image, or as `spoken`.
    """
    return spoken(
        step,
        chosen_attempt(trajectory, step) if attempt == CHOSEN else attempt - 1,
        word,
        better_prompt,
        reason,
    )


def spoken(step: int, index: int, word: str, better_prompt: str, reason: str) -> Feedback:
    """Return the feedback on the attempt with this index, from 0.

    Raises:
        SettingsError: The verdict is unknown, or the better prompt is missing or too long.
    """
    if word not in (ACCEPT, REJECT, BETTER, TAKE_BACK):
        raise SettingsError(
            f"Unknown verdict {word!r:.42}.", f"Choose one of: {ACCEPT}, {REJECT}, {BETTER}, {TAKE_BACK}."
        )
    if word == BETTER and not better_prompt.strip():
        raise SettingsError("The better prompt is empty.", "Write it, or choose the verdict 'reject'.")
    values: dict[str, Any] = {"step": step, "attempt": index}
    if word != TAKE_BACK:
        values |= {"accepted": word == ACCEPT, "note": reason.strip() or None}
    if word == BETTER:
        values["better_prompt"] = better_prompt.strip()
    try:
        return Feedback(**values)
    except ValidationError as error:
        raise SettingsError(
            f"Feedback: an input is not valid{first_fault(error)}", "Check the node's inputs."
        ) from error


def chosen_attempt(trajectory: Trajectory, step: int) -> int:
    """Return the index of the attempt that a step has kept.

    Raises:
        SettingsError: The step has no kept image.
    """
    chosen = {result.step.number: result.chosen for result in trajectory.results}
    index = chosen.get(step)
    if index is None:
        known = ", ".join(str(number) for number, one in chosen.items() if one is not None)
        raise SettingsError(
            f"Feedback: step {step} has no kept image.", f"Steps with a kept image: {known or 'none'}."
        )
    return index


def record(trajectory: Trajectory, given: Feedback, prompts: PromptSet | None) -> FeedbackData:
    """Write the feedback into the run's folder and into the training rows.

    The questions of the rows use the prompt set `prompts`, `None` for the pack's own.

    Raises:
        SettingsError: The attempt does not exist.
        JournalError: A file cannot be written.
    """
    from ...backend.output.sft_rows import add_feedback_rows, find_attempt

    given = given.model_copy(update={"image": find_attempt(trajectory, given)[2].digest})
    known = record_with_run(
        run_folder(host.output_folder(), trajectory.request, trajectory.settings.seed), given
    )
    return add_feedback_rows(host.output_folder() / PARENT / FOLDER, trajectory, known, prompts)


def record_with_run(run: Path, given: Feedback) -> list[Feedback]:
    """Record the feedback in the run's folder.

    A story from another machine has no run here: its feedback is only in the training rows.

    Returns:
        All earlier feedback on the run that names its image, then this one.
    """
    if not (run / RUN).is_file():
        return [given]
    record_feedback(run, given)
    others = [one for one in read_feedback(run) if (one.step, one.attempt) != (given.step, given.attempt)]
    return [*(one for one in others if one.image), given]
