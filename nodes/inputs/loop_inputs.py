"""Inputs shared by the nodes that judge images: one id, range, default and tooltip each."""

from __future__ import annotations

from comfy_api.latest import io

from ...backend.pipeline.published import STORY_SETTINGS
from ...backend.pipeline.story_check import MAX_REOPENED
from ...backend.types import MAX_BATCH
from .sockets import AgentSocket
from .validation import CHOICES, CUSTOM

OWN_SETTINGS = "off"
"""Value of `as_published` that leaves the node's settings as they are."""
AGENTS_CHOICE = 0.0
"""Value of `accept_at` that leaves the decision to the agent: its strictness, else its own verdict."""


def critic_input() -> io.Input:
    """Return the input for the agent that judges every image."""
    return AgentSocket.Input(
        "critic",
        optional=True,
        tooltip="The agent that judges every image. It sees the image before the step and the new one, not "
        "the reference images. Without a critic, each step is generated once and not judged.",
    )


def max_attempts_input() -> io.Int.Input:
    """Return the input for the maximum number of attempts per step."""
    return io.Int.Input(
        "max_attempts",
        default=5,
        min=1,
        max=100,
        tooltip="Maximum number of attempts per step, the first one included. With 1, no critic is asked.",
    )


def accept_at_input() -> io.Float.Input:
    """Return the input for the acceptance threshold."""
    return io.Float.Input(
        "accept_at",
        default=AGENTS_CHOICE,
        min=0.0,
        max=1.0,
        step=0.05,
        tooltip="Used with strictness 'custom': accept an image from this success probability on, in 0..1. 0 "
        "does not accept everything: the critic decides (by its own strictness if set, else by its verdict).",
    )


def strictness_input() -> io.Combo.Input:
    """Return the input for the strictness; `CUSTOM` where an older workflow does not have it."""
    return io.Combo.Input(
        "strictness",
        options=[*CHOICES, CUSTOM],
        default=CUSTOM,
        optional=True,
        tooltip="When an image is accepted: by the critic's own yes or no, or from a success probability of "
        "30 % (lenient), 50 % (normal), 80 % (strict) or 'accept at' (custom). Wins over the strictness of "
        "the agent. Percentages need a critic that reports probabilities; without them its own verdict "
        "decides.",
    )


def derive_checklist_input() -> io.Boolean.Input:
    """Return the input for derived checklists. Default: off, so that old workflows run unchanged."""
    return io.Boolean.Input(
        "derive_checklist",
        default=False,
        optional=True,
        advanced=True,
        tooltip="Ask the critic about single points of steps without a checklist: numbers and quoted texts "
        "in the prompt, traits of the cast, facts. A failed point rejects the image. Each point is one short "
        "question.",
    )


def keep_input() -> io.Combo.Input:
    """Return the input for the attempt that is kept if none was accepted."""
    return io.Combo.Input(
        "keep",
        options=["best", "last"],
        default="best",
        tooltip="Attempt that a step keeps if none was accepted: the one with the highest success "
        "probability, or the last one.",
    )


def pause_input() -> io.Combo.Input:
    """Return the input for the pauses. Default: never, so that old workflows run unchanged."""
    return io.Combo.Input(
        "pause",
        options=["never", "after the plan", "at rejected steps", "every step"],
        default="never",
        optional=True,
        advanced=True,
        tooltip="When to end and wait for you. Decide in the view of the run, which then queues the story "
        "again: approve, redraw, use another attempt or skip the step. every step: after the planner's plan "
        "and after each image.",
    )


def pause_between_nodes_input() -> io.Combo.Input:
    """Return the input for the pauses of Attempt End, whose plan comes over a wire and needs no approval."""
    return io.Combo.Input(
        "pause",
        options=["never", "at rejected steps", "every step"],
        default="never",
        optional=True,
        advanced=True,
        tooltip="When to end and wait for you; the nodes after this one wait too. Decide in the view of the "
        "run, which then queues the graph again: approve, redraw, use another attempt or skip the step.",
    )


def check_story_input() -> io.Int.Input:
    """Return the input for the story check. Default: off, so that old workflows run unchanged."""
    return io.Int.Input(
        "check_story",
        default=0,
        min=0,
        max=MAX_REOPENED,
        optional=True,
        advanced=True,
        tooltip="After the last step, show the critic all images together, and generate up to this number of "
        "images that do not fit the story again, each with the later steps that depend on it. 0: no check.",
    )


def published_input() -> io.Combo.Input:
    """Return the input for the settings of the published system. Default: none of them."""
    return io.Combo.Input(
        "as_published",
        options=[OWN_SETTINGS, *STORY_SETTINGS],
        default=OWN_SETTINGS,
        optional=True,
        advanced=True,
        tooltip="released: the settings of the released code (3 attempts, the last one kept, seeds 0, 1000, "
        "2000..., images of 1024x1024, sampling of the critic). paper: those of the paper (5 attempts). They "
        "replace the values of this node. The report says what they cannot set.",
    )


def candidates_input() -> io.Int.Input:
    """Return the input for the images generated per attempt; 1 where a workflow does not have it."""
    return io.Int.Input(
        "candidates",
        default=1,
        min=1,
        max=MAX_BATCH,
        optional=True,
        advanced=True,
        tooltip="Images generated and judged together, each with its own seed; the best one counts. They use "
        "up the attempts: with 5 attempts and 5 candidates there is one round.",
    )
