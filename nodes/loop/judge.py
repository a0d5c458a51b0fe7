"""Node that asks a critic for one verdict.

It uses the loop's critic and acceptance rule. A reply that cannot be parsed is an error that shows the reply,
never a guessed verdict. A probability that the agent does not report stays missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from comfy_api.latest import io

from ...backend.core.errors import AnswerError, SettingsError
from ...backend.core.seams.chat_model import ChatModel
from ...backend.core.types import RunSettings, Verdict
from ...backend.output.report.run_report import reasoning_shown
from ...backend.story.loop.policy import accepted
from ...backend.story.loop.setting_checks import unused_at
from ...backend.story.outcomes import ONLY_FORCED, UNUSED, percent
from .. import host
from ..agents.managed_chat import critic_with
from ..host import running_graph
from ..inputs.images import only_picture
from ..inputs.loop_inputs import accept_at_input, strictness_input
from ..inputs.sockets import AGENT, AgentSocket, asked_request, check_connected, node_schema
from ..inputs.validation import CUSTOM, accept_at_of, fault_of, in_range, only_text

MAX_TEXTS = 80_000
"""Maximum length in characters of instruction and prompt together, which are parts of one message."""


class JudgeNode(io.ComfyNode):
    """Judges one image, or the change from one image to another."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleaveJudge",
            is_output_node=True,
            shown=("instruction", "strictness"),
            inputs=[
                AgentSocket.Input("agent"),
                io.Image.Input("after"),
                io.String.Input("instruction", multiline=True, default=""),
                accept_at_input(),
                io.Image.Input("before", optional=True),
                io.String.Input("prompt", multiline=True, optional=True, default=""),
                strictness_input(),
            ],
            outputs=[
                io.Boolean.Output("success"),
                io.Float.Output("probability"),
                io.String.Output("refined_prompt", display_name="refined prompt"),
                io.String.Output("reasoning"),
                io.String.Output("verdict_text", display_name="verdict as text"),
            ],
        )

    @classmethod
    def validate_inputs(cls, instruction: str | None = None) -> bool | str:
        """Check inputs before anything runs."""
        return instruction is None or fault_of(lambda: check_texts(instruction, ""), instruction=instruction)

    @classmethod
    def execute(
        cls,
        agent: ChatModel,
        after: Any,
        instruction: str,
        accept_at: float,
        before: Any = None,
        prompt: str = "",
        strictness: str = CUSTOM,
    ) -> io.NodeOutput:
        """Ask the critic."""
        check_texts(instruction, prompt)
        only_text("Judge", strictness=strictness)
        in_range("Judge", 0, 1, accept_at=accept_at)
        check_connected("Judge", AGENT, agent=agent)
        shown = only_picture(after, "after")
        earlier = None if before is None else only_picture(before, "before")
        with host.host_interrupts():
            verdict = critic_with(agent).judge(earlier, shown, instruction, prompt.strip() or instruction)
        if verdict.success is None:
            raise AnswerError(verdict.reasoning, hint="Try another agent.")
        threshold = accept_at_of(agent, strictness, accept_at)
        unused = unused_at(verdict, RunSettings(accept_at=threshold))
        return results(verdict, accepted(verdict, threshold), [UNUSED[setting] for setting in unused])


def check_texts(instruction: str, prompt: str) -> None:
    """Check the texts of a question.

    Raises:
        SettingsError: The instruction is empty, or the texts are too long or not valid.
    """
    if not instruction.strip():
        raise SettingsError("Judge: the instruction is empty.", "Write what the image should show.")
    asked_request(instruction + prompt, None)  # the same bounds as a request's
    if len(instruction) + len(prompt) > MAX_TEXTS:
        raise SettingsError(
            f"Judge: instruction and prompt have {len(instruction) + len(prompt)} characters; at most "
            f"{MAX_TEXTS} are allowed.",
            "Shorten them.",
        )


def results(verdict: Verdict, passes: bool, notes: Sequence[str] = ()) -> io.NodeOutput:
    """Return the outputs and the display of a verdict. The text ends with the notes."""
    unknown = "This agent reports no success probability. Use the output 'accepted' instead."
    text = "\n\n".join([verdict_text(verdict, passes), *notes])
    return io.NodeOutput(
        passes,
        running_graph.missing(unknown) if verdict.probability is None else verdict.probability,
        verdict.refined_prompt,
        reasoning_shown(verdict),
        text,
        ui={"text": (text,)},
    )


def verdict_text(verdict: Verdict, passes: bool) -> str:
    """Return a verdict as text: the decision, the probability, the reasoning and the next prompt."""
    head = "Accepted" if passes else "Rejected"
    if verdict.probability is not None:
        head += f", {percent(verdict.probability, not passes)} likely right"
    if passes != verdict.success:
        head += f" (the critic's own verdict: {'success' if verdict.success else 'no success'})"
    lines = [f"{head} ({ONLY_FORCED})" if verdict.forced else head]
    if verdict.reasoning:
        lines += ["", reasoning_shown(verdict)]
    if not passes:
        lines += ["", f"Refined prompt: {verdict.refined_prompt}"]
    return "\n".join(lines)
