"""The commands `plan` and `judge`, which ask one agent, and `prompts`, which stores prompt sets for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ...backend.core.errors import SettingsError
from ...backend.core.prompts.agent_card import Role
from ...backend.core.prompts.importer import import_beside, store_beside
from ...backend.core.prompts.prompt_set import named_prompt_set
from ...backend.core.shown_text import shown_text
from ...backend.core.types import Attempt, RunSettings
from ...backend.output.report.run_report import reasoning_shown
from ...backend.pipeline.plan_file import read_plan_and_request
from ...backend.pipeline.prepared import read_picture, read_request, read_text
from ...backend.story.agents.plan_constraints import ConstrainedPlanner, PlanConstraints
from ...backend.story.agents.plan_lint import lint as lint_plan
from ..models import NONE, CriticOptions, LocalOptions, Opener, PlannerOptions
from ..progress import Lines, cast_lines, plan_lines, plural, verdict_text, warn
from ..run_request import check_words, warn_of
from ..settings import with_settings
from ..shared_options import InputImages, Json

prompts = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Store a prompt set with a checkpoint: the one it was trained with, or the one for its training.",
)
Checkpoint = Annotated[Path, typer.Option("--to", help="Folder of the checkpoint.")]


@with_settings
def plan(
    *,
    request: Annotated[str | None, typer.Argument(help="What the story is about.")] = None,
    planning: PlannerOptions,
    constraints: PlanConstraints,
    local: LocalOptions,
    image: InputImages = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print the plan as JSON. Save it, edit it and carry it out with `run --plan FILE`."
        ),
    ] = False,
    lint: Annotated[
        Path | None,
        typer.Option(
            "--lint",
            help="Check the plan in this file or run folder instead of planning. Exit code 3 if there are "
            "findings. With --json: a list of {step, rule, message}.",
        ),
    ] = None,
    lint_request: Annotated[
        str | None,
        typer.Option(
            "--request", help="Request of the plan of --lint. Default: the one of its run, if it has one."
        ),
    ] = None,
) -> None:
    """Print the plan of a request without generating images, or check a plan (--lint)."""
    if lint is not None:
        if request is not None:
            raise SettingsError("--lint does not plan a request.", "Give the plan's request with --request.")
        raise typer.Exit(_check(lint, lint_request, as_json))
    if lint_request is not None:
        raise SettingsError("--request needs --lint.", "Add --lint, or give the request without --request.")
    if request is None:
        raise SettingsError("No request is given.", "Give a request, or a plan to check with --lint.")
    asked = read_request(request, image or [])
    check_words(planning.planner, asked.text)
    view = Lines()
    if not as_json:
        view.wait("Planning")
    try:
        opener = Opener(local)
        planner = ConstrainedPlanner(opener.planner(planning, view.planning), constraints)
        opener.finish()
        made = planner.plan(asked)
    finally:
        view.wait("")
    warn_of(made, asked, constraints.step_count)
    if as_json:
        print(made.model_dump_json(indent=2))
        return
    for line in plan_lines(made):
        view.say(line)


def _check(path: Path, request: str | None, as_json: bool) -> int:
    """Print the findings for a plan, and return the exit code."""
    made, found_request = read_plan_and_request(path)
    if made.warning:
        warn(made.warning)
    findings = lint_plan(made, read_text("--request", request) if request is not None else found_request)
    if as_json:
        print(json.dumps([one.model_dump() for one in findings], ensure_ascii=False, indent=2))
    else:
        for number, line in cast_lines(made):
            typer.echo(shown_text(f"Step {number}, {line}."))
        for one in findings:
            typer.echo(f"{shown_text(one.sentence)} ({one.rule})")
        typer.echo(f"{plural(len(findings), 'finding')} in {plural(len(made.steps), 'step')}.")
    return 3 if findings else 0


@with_settings
def judge(
    *,
    before: Annotated[
        str, typer.Argument(help="Image before the edit, or `none` if the image was generated from text.")
    ],
    after: Annotated[Path, typer.Argument(help="Image to judge.")],
    instruction: Annotated[str, typer.Argument(help="Prompt that the image has to match.")],
    judging: CriticOptions,
    local: LocalOptions,
    prompt_used: Annotated[
        str | None, typer.Option(help="Prompt that the image was generated with. Default: INSTRUCTION.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Ask the critic whether an image matches an instruction.

    The exit code is 0 if the critic accepts the image, 3 if it rejects it and 1 if its reply cannot be
    parsed.
    """
    first = None if before == NONE else read_picture(Path(before))
    second = read_picture(after)
    original = read_text("The instruction", instruction)
    used = original if prompt_used is None else read_text("--prompt-used", prompt_used)
    opener = Opener(local)
    critic = opener.critic(judging)
    opener.finish()
    if critic is None:
        raise SettingsError("`judge` needs a critic, but --critic is none.", "Name a critic.")
    verdict = critic.judge(first, second, original, used)
    if as_json:
        print(verdict.model_dump_json())
    else:
        view = Lines()
        judged = Attempt(prompt=original, seed=0, image=second, verdict=verdict)
        view.say(f"Verdict: {verdict_text(judged, RunSettings())}", "bold")
        if verdict.reasoning:
            view.say(reasoning_shown(verdict))
        if verdict.success is not True and verdict.refined_prompt:
            view.say(f"Refined prompt: {verdict.refined_prompt}")
    raise typer.Exit({True: 0, False: 3, None: 1}[verdict.success])


@prompts.command("import")
def import_prompts(
    path: Annotated[
        Path, typer.Argument(help="Your checkout of the official repository. Its code is read, not executed.")
    ],
    to: Checkpoint,
    role: Annotated[
        Role | None,
        typer.Option(
            help="Job that the checkpoint was trained for; the other job is then refused. Default: "
            "recognized for the published checkpoints, otherwise left open."
        ),
    ] = None,
) -> None:
    """Import the official prompts for a published checkpoint.

    The prompt set and an agent card are stored with the checkpoint and used whenever it plans or judges.
    """
    print(import_beside(path, to, role))


@prompts.command("use")
def use_prompts(
    name: Annotated[
        str,
        typer.Argument(
            help="default, verdict-first (the critic gives its verdict before its reasoning, which makes an "
            "accepted image cheap) or short (the critic reasons in one sentence)."
        ),
    ],
    to: Checkpoint,
) -> None:
    """Store a built-in prompt set with a checkpoint before training it.

    Training data for this checkpoint is then made with this prompt set, and so are its requests later. A few
    hundred rows do not teach a critic to judge in another form (docs/explanation/speed.md).
    """
    prompt_set = named_prompt_set(name)
    store_beside(prompt_set, to)
    print(f"Stored prompt set {prompt_set.digest} in {to}.")
