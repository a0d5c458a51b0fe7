"""Node in which the user edits a plan, or writes one.

The edited text is an ordinary widget, so a workflow contains it and the node works without a browser. The
list editor in the browser is a view of that text. The node never writes into it; messages go into its note.
"""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

from comfy_api.latest import io
from pydantic import BaseModel, ConfigDict, Field

from ...backend.core.errors import SettingsError
from ...backend.core.files.image_places import image_files, with_step_images
from ...backend.core.types import MAX_STYLE, MAX_TEXT, Plan, Request, Step
from ...backend.core.types.cast import CastMember
from ...backend.output.live.browser_requests import small_webp
from ...backend.story.agents.plan_lint import found_casts, step_findings
from ...backend.story.agents.text_writers import Translator
from ...backend.story.plan_editor.edited_plan import (
    MAX_PLAN_TEXT,
    EditedPlan,
    EditedStep,
    PlanTextError,
    checked_cast,
)
from ...backend.story.plan_editor.json_form import plan_object, write_json
from ...backend.story.plan_editor.merge import MergedPlan, apply_edits, editable, read_edits
from ...backend.story.plan_editor.outline import write_outline
from .. import host
from ..agents.reply_inputs import settings_of
from ..inputs.sockets import (
    AGENT,
    CAST,
    PLAN,
    AgentSocket,
    CastSocket,
    PlannedRequest,
    PlanSocket,
    asked_request,
    check_connected,
    check_optional,
    images_input,
    node_schema,
)
from .cast import is_connected

DISPLAY = "interleave_plan"
MAX_SHOWN = 500_000
"""Maximum number of characters of plans sent to the browser."""
MAX_OFFERED = 500
"""Maximum number of image names offered for a mask or a reference."""
EXAMPLE = """1. The harbor
   draw: a calm bay at dawn, one red boat
   text: Very early, the boat set sail.

2. add a yellow sun at the top right"""


class EditPlan(io.ComfyNode):
    """Lets the user change, add, delete, move and lock steps, or write a plan without a planner."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleaveEditPlan",
            is_output_node=True,
            shown=("edits", "request"),
            inputs=[
                PlanSocket.Input("plan", optional=True),
                io.String.Input("edits", multiline=True, default="", placeholder=EXAMPLE),
                io.String.Input("request", default="", optional=True),
                images_input(),
                CastSocket.Input("cast", optional=True),
                AgentSocket.Input("agent", optional=True),
                io.String.Input("language", default="", optional=True),
            ],
            outputs=[PlanSocket.Output("PLAN"), io.String.Output("plan_text", display_name="plan as text")],
        )

    @classmethod
    def validate_inputs(cls, edits: Any = None, images: Any = None) -> bool | str:
        """Check inputs before anything runs."""
        # The host passes growing inputs even if the method has no parameter for them. Edits on a wire are not
        # known yet.
        try:
            if isinstance(edits, str) and (written := read_edits(edits)):
                check_files(written)
        except SettingsError as error:
            return str(error)
        return True

    @classmethod
    def fingerprint_inputs(cls, edits: Any = None, **others: Any) -> str:
        """Return a value that changes when the node must run again."""
        # The host compares inputs only. A file painted over under the same name is another image.
        return files_edition(edits) if isinstance(edits, str) else ""

    @classmethod
    def execute(
        cls,
        edits: str,
        plan: PlannedRequest | None = None,
        request: str = "",
        images: dict[str, Any] | None = None,
        cast: tuple[CastMember, ...] | None = None,
        agent: Any = None,
        language: str = "",
    ) -> io.NodeOutput:
        """Apply the edits."""
        check_optional("Edit Plan", PLAN, plan=plan)
        check_optional("Edit Plan", CAST, cast=cast)
        members = cast or ()
        outcome = apply_edits(read_edits(edits), plan.plan if plan else None, members)
        if language.strip():
            if agent is None:
                raise SettingsError(
                    f"Edit Plan: no agent translates the texts into {language.strip()[:40]!r}.",
                    "To translate the texts, connect an agent; to keep them, empty 'language'.",
                )
            check_connected("Edit Plan", AGENT, agent=agent)
            with host.host_interrupts():
                told = Translator(agent, settings_of(agent))(outcome.plan, language)
            outcome = outcome.model_copy(update={"plan": told})
        asked = plan.request if plan else named_request(asked_request(request, images), outcome.plan)
        drawn = with_step_images(outcome.plan, host.input_folder())
        return io.NodeOutput(
            PlannedRequest(
                request=asked,
                plan=drawn,
                planner=_planner_of(plan, outcome, members),
                prompt_set=plan.prompt_set if plan else "",
            ),
            plan_text(outcome.plan),
            ui={DISPLAY: [display(outcome, plan, members)]},
        )


def _planner_of(plan: PlannedRequest | None, outcome: MergedPlan, cast: tuple[CastMember, ...]) -> str:
    """Return the planner of the plan, marked if the plan was edited. A connected cast is not an edit."""
    if plan is None or not plan.planner:
        return ""
    unchanged = plan.plan.model_copy(update={"cast": cast}) if cast else plan.plan
    return plan.planner if outcome.plan == unchanged.resolved else f"{plan.planner}|edited by hand"


def named_request(request: Request, plan: Plan) -> Request:
    """Return the request, with text from the first step if it is empty, since runs are stored by it."""
    if request.text.strip():
        return request
    first = plan.steps[0]
    text = first.name or first.prompt or first.auxiliary_text or ""
    return request.model_copy(update={"text": text[:MAX_TEXT]})


def display(
    outcome: MergedPlan, incoming: PlannedRequest | None, connected: tuple[CastMember, ...] = ()
) -> dict[str, Any]:
    """Return the data of the list editor.

    It has the note, the planner's plan with what its check shows, the result if it differs, the cast that is
    not in the text, and the request, with which the editor has later edits checked. Without a planner, the
    request is only a name.
    """
    shown: dict[str, Any] = {"note": outcome.note, "stale": outcome.is_stale}
    plans: dict[str, Any] = {}
    for name, members in (("cast", connected), ("planned_cast", incoming.plan.cast if incoming else ())):
        if members:
            shown[name] = [shown_member(member) for member in members]
    if incoming is not None:
        plans["request"] = incoming.request.text
        plans["planned"] = plan_object(editable(incoming.plan))
        plans["planned_style"] = incoming.plan.style
        planned = incoming.plan.model_copy(update={"cast": connected}) if connected else incoming.plan
        plans["findings"] = found_in(planned, incoming.request.text)
        plans["casts"] = casts_in(planned)
    if outcome.is_stale:
        plans["result"] = plan_object(outcome.edited)
    if len(json.dumps(plans)) > MAX_SHOWN:
        return shown | {"note": f"{outcome.note} The plan is too long for the list editor."}
    return shown | plans


def found_in(plan: Plan, request: str) -> list[dict[str, Any]]:
    """Return the findings for a plan as JSON values."""
    return [one.model_dump() for one in step_findings(plan, request)]


def casts_in(plan: Plan) -> list[dict[str, Any]]:
    """Return who is in each step by its prompt as JSON values."""
    return [one._asdict() for one in found_casts(plan)]


class AskPlanText(BaseModel):
    """Request of the list editor to parse a plan text, and to check it against its request.

    `style` is the planner's, which is used if the text has none. `cast` are the members outside of the text,
    as far as the browser knows them; `None` if there are none. A member that is not valid is an error of the
    plan text, since the browser shows no other.
    """

    model_config = ConfigDict(extra="forbid")

    text: str = Field(max_length=MAX_PLAN_TEXT)
    request: str = Field(default="", max_length=MAX_TEXT)
    style: str = Field(default="", max_length=MAX_STYLE)
    cast: list[Any] | None = None


class PlanTextRead(BaseModel):
    """A parsed plan text: its steps (as in the JSON form), both text forms, and what the plan check shows.

    These are findings, and who is in each step by its prompt. If it could not be parsed: the error, its line.
    """

    plan: dict[str, Any] | None = None
    outline: str = ""
    json_text: str = ""
    error: str = ""
    line: int | None = None
    findings: list[dict[str, Any]] = []
    casts: list[dict[str, Any]] = []


def plan_text_read(asked: AskPlanText) -> PlanTextRead:
    """Parse a plan text for the list editor."""
    try:
        edits = read_edits(asked.text)
        if edits is None:
            return PlanTextRead()
        connected = None if asked.cast is None else checked_cast(asked.cast)
        plan = apply_edits(edits, None, with_unknown(edits, connected)).plan
    except PlanTextError as error:
        return PlanTextRead(error=str(error), line=error.line)
    styled = plan if plan.style else plan.model_copy(update={"style": asked.style})
    return PlanTextRead(
        plan=plan_object(edits),
        outline=write_outline(edits),
        json_text=write_json(edits),
        findings=found_in(styled, asked.request),
        casts=casts_in(_as_written(edits, plan)),
    )


def _as_written(edits: EditedPlan, plan: Plan) -> Plan:
    """Return the plan with the steps of its text, whose prompts have marks."""
    return plan.model_copy(update={"steps": tuple(one.step for one in edits.steps)})


class AskImages(BaseModel):
    """Request for the images that steps may name."""

    model_config = ConfigDict(extra="forbid")


class ImageNames(BaseModel):
    """Names of the images in the host's input folder, newest first."""

    names: list[str]


def image_names(asked: AskImages) -> ImageNames:
    """Return the images offered for masks and references."""
    return ImageNames(names=host.input_images(MAX_OFFERED))


def plan_routes() -> list[host.Route]:
    """Return the routes of the list editor."""
    return [
        host.Route("POST", "/interleave-thinker/plan", AskPlanText, plan_text_read),
        host.Route("GET", "/interleave-thinker/step-images", AskImages, image_names),
    ]


def plan_text(plan: Plan) -> str:
    """Return the outline of a plan: style and cast, then number, name, prompt and text of every step."""
    return write_outline(
        EditedPlan(
            steps=tuple(EditedStep(step=step) for step in plan.steps),
            style=plan.style,
            cast=tuple(_as_text(member) for member in plan.cast),
        )
    )


def _as_text(member: CastMember) -> CastMember:
    """Return the member without connected images, which are not files that a text can name."""
    named = tuple(image for image in member.images if not is_connected(image))
    return member if named == member.images else member.model_copy(update={"images": named})


def step_text(step: Step) -> str:
    """Return the outline of one step."""
    return write_outline(EditedPlan(steps=(EditedStep(step=step),)))


PIXELS = 96
"""Longer side of a thumbnail: twice the size at which it is shown."""


def shown_member(member: CastMember) -> dict[str, Any]:
    """Return a member as JSON values, with its newest image as a data address of a few kilobytes."""
    shown: dict[str, Any] = {"name": member.name, "kind": member.kind, "traits": list(member.traits)}
    if member.newest:
        small = small_webp(member.newest, PIXELS)
        shown["thumbnail"] = f"data:image/webp;base64,{b64encode(small).decode()}"
    return shown


def with_unknown(edits: EditedPlan, connected: tuple[CastMember, ...] | None) -> tuple[CastMember, ...]:
    """Return the connected members and those that steps name.

    The browser may not know a connected cast, so a name is checked only if nothing is connected.
    """
    if connected is None:
        return ()
    known = {member.name.casefold() for member in (*connected, *edits.cast)}
    named = {name.casefold(): name for one in edits.steps for name in one.step.cast or ()}
    unknown = [CastMember(name=name) for key, name in named.items() if key not in known]
    return (*connected, *unknown)


def check_files(edits: EditedPlan) -> None:
    """Check that the files named by steps exist.

    Raises:
        SettingsError: A file is not in the host's folders. The message names the step.
    """
    with_step_images(_named_images(edits), host.input_folder())
    for one in edits.steps:
        lora = one.step.settings.lora
        if lora is not None and host.lora_file(lora.name) is None:
            raise SettingsError(
                f"Step {one.step.number}, lora: {lora.name!r} does not exist in models/loras.",
                "Put it there and press R, or change the plan.",
            )


def files_edition(edits: str) -> str:
    """Return a string that changes when a file named by a plan text is written."""
    try:
        written = read_edits(edits)
        if written is None:
            return ""
        files = [*image_files(_named_images(written), host.input_folder()), *_lora_files(written)]
        states = [path.stat() for path in files]
    except (SettingsError, OSError):
        return ""  # reported as an error when the node runs
    return " ".join(f"{state.st_ino}.{state.st_size}.{state.st_mtime_ns}" for state in states)


def _lora_files(edits: EditedPlan) -> list[Path]:
    loras = (one.step.settings.lora for one in edits.steps)
    found = [host.lora_file(lora.name) for lora in loras if lora is not None]
    return [file for file in found if file is not None]


def _named_images(edits: EditedPlan) -> Plan:
    """Return a plan with the images that edits name. Its steps may name members of the planner's cast."""
    steps = (one.step.model_copy(update={"cast": None}) for one in edits.steps)
    return Plan(steps=tuple(steps), cast=edits.cast)
