"""The node that asks for one verdict.

Decision: it shares the critic and the rule of acceptance with the loop, and decides nothing else: a reply
that cannot be read is an error that shows the reply, never a guessed verdict, and a probability that the
agent does not report is missing, not made up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from comfy_api.latest import io

from ...backend.chat.protocol import ChatModel
from ...backend.errors import AnswerError, SettingsError
from ...backend.loop.loop import CriticLike
from ...backend.loop.policy import accepted, unused_at
from ...backend.report.outcomes import UNUSED, percent
from ...backend.report.reasoning import reasoning_shown
from ...backend.types import RunSettings, Verdict
from .. import host
from ..agents.interruptible import ListenedCritic
from ..agents.reply_inputs import settings_of
from ..agents.strictness import accept_at_of
from ..host import expansion
from ..inputs.connected import AGENT, check_connected
from ..inputs.images import only_picture
from ..inputs.loop_inputs import accept_at_input
from ..inputs.request import asked_request
from ..inputs.sockets import CATEGORY, AgentSocket
from ..inputs.validation import fault_of, in_range

MAX_TEXTS = 80_000
"""Characters of instruction and prompt together: they are one message to the agent, with the question around
them."""


class JudgeNode(io.ComfyNode):
    """One verdict of a critic on one image, or on a change from one image to another."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveJudge",
            display_name="Judge",
            category=CATEGORY,
            description=(
                "Asks a critic once: does the image show what was asked for, and how should the "
                "prompt read if not?"
            ),
            search_aliases=[
                "critic",
                "verdict",
                "compare images",
                "before after",
                "evaluate",
                "score",
                "check image",
            ],
            is_output_node=True,
            inputs=[
                AgentSocket.Input("agent", tooltip="The agent that judges, from Load Agent."),
                io.Image.Input("after", tooltip="The image that is judged."),
                io.String.Input(
                    "instruction",
                    multiline=True,
                    default="",
                    tooltip="What the image was to show, or what was to change from before to after.",
                ),
                accept_at_input(),
                io.Image.Input(
                    "before",
                    optional=True,
                    tooltip="The image before the change. "
                    "Without one the critic is shown a white page, as for a picture from text alone.",
                ),
                io.String.Input(
                    "prompt",
                    multiline=True,
                    optional=True,
                    default="",
                    tooltip=(
                        "The prompt that the image was drawn with, if it was another than the instruction."
                    ),
                ),
            ],
            outputs=[
                io.Boolean.Output("success", tooltip="Whether the image passes."),
                io.Float.Output(
                    "probability", tooltip="Probability of success, 0 to 1. Not every agent reports one."
                ),
                io.String.Output(
                    "refined_prompt",
                    display_name="refined prompt",
                    tooltip="The prompt to draw with next; the one used if the image passes.",
                ),
                io.String.Output("reasoning", tooltip="What the critic thought."),
                io.String.Output(
                    "verdict_text", display_name="verdict as text", tooltip="All of it, to read."
                ),
            ],
        )

    @classmethod
    def validate_inputs(cls, instruction: str | None = None) -> bool | str:
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
    ) -> io.NodeOutput:
        check_texts(instruction, prompt)
        in_range("Judge", 0, 1, accept_at=accept_at)
        check_connected("Judge", AGENT, agent=agent)
        shown = only_picture(after, "after")
        earlier = None if before is None else only_picture(before, "before")
        with host.host_interrupts():
            verdict = critic_of(agent).judge(earlier, shown, instruction, prompt.strip() or instruction)
        if verdict.success is None:
            raise AnswerError(verdict.reasoning, hint="Try another agent.")
        wanted = accept_at_of(agent, accept_at)
        unused = unused_at(verdict, RunSettings(accept_at=wanted))
        return results(verdict, accepted(verdict, wanted), [UNUSED[setting] for setting in unused])


def check_texts(instruction: str, prompt: str) -> None:
    """Raise SettingsError for an empty instruction, and for texts that no agent could be asked with."""
    if not instruction.strip():
        raise SettingsError("Judge has no instruction.", "Write what the image was to show.")
    asked_request(instruction + prompt, None)  # the same bounds as a request's
    if len(instruction) + len(prompt) > MAX_TEXTS:
        raise SettingsError(f"Judge's instruction and prompt have more than {MAX_TEXTS} characters.")


def results(verdict: Verdict, passes: bool, notes: Sequence[str] = ()) -> io.NodeOutput:
    """The outputs and the display of a verdict, which ends with the notes."""
    unknown = "This agent reports no probability: use the output 'success'."
    text = "\n\n".join([verdict_text(verdict, passes), *notes])
    return io.NodeOutput(
        passes,
        expansion.missing(unknown) if verdict.probability is None else verdict.probability,
        verdict.refined_prompt,
        reasoning_shown(verdict),
        text,
        ui={"text": (text,)},
    )


def critic_of(chat: ChatModel) -> CriticLike:
    """The critic that speaks through this agent and stops when the user presses cancel."""
    from ...backend.agents.critic import Critic

    return ListenedCritic(Critic(chat, settings=settings_of(chat, watch_verdict=True)), lambda text: None)


def verdict_text(verdict: Verdict, passes: bool) -> str:
    """A verdict to read: whether the image passes, with which probability, why, and the prompt to go on
    with."""
    head = "Accepted" if passes else "Refused"
    if verdict.probability is not None:
        head += f", P(success) {percent(verdict.probability, not passes)}"
    if passes != verdict.success:
        head += f" (the critic's own word: {'right' if verdict.success else 'wrong'})"
    lines = [head]
    if verdict.reasoning:
        lines += ["", reasoning_shown(verdict)]
    if not passes:
        lines += ["", f"Draw next: {verdict.refined_prompt}"]
    return "\n".join(lines)
