"""`interleave-thinker plan`: prints the plan of a request, or checks a plan, without generating images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ...backend.agents.plan_constraints import PlanConstraints
from ...backend.agents.plan_lint.lint import lint as lint_plan
from ...backend.errors import SettingsError
from ...backend.pipeline.plan_file import read_plan_and_request
from ...backend.pipeline.prepared import read_request, read_text
from ...backend.shown_text import shown_text
from ..open_models import Opener
from ..options.model_options import LocalOptions, PlannerOptions
from ..options.models import with_model_options
from ..progress import Lines, cast_lines, plan_lines, plural, warn
from ..run_request import check_words, constrained, warn_of

CHECK = "Check a plan"


@with_model_options
def command(
    *,
    request: Annotated[str | None, typer.Argument(help="What the story is about.")] = None,
    planning: PlannerOptions,
    constraints: PlanConstraints,
    local: LocalOptions,
    image: Annotated[
        list[Path] | None,
        typer.Option("--image", help="Input image. Repeat it for several, in the order of the request."),
    ] = None,
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
            rich_help_panel=CHECK,
        ),
    ] = None,
    lint_request: Annotated[
        str | None,
        typer.Option(
            "--request",
            help="Request of the plan of --lint. Default: the one of its run, if it has one.",
            rich_help_panel=CHECK,
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
        planner = constrained(opener.planner(planning, view.planning), constraints)
        opener.finish()
        plan = planner.plan(asked)
    finally:
        view.wait("")
    warn_of(plan, asked, constraints.step_count)
    if as_json:
        print(plan.model_dump_json(indent=2))
        return
    for line in plan_lines(plan):
        view.say(line)


def _check(path: Path, request: str | None, as_json: bool) -> int:
    """Print the findings for a plan, and return the exit code."""
    plan, found_request = read_plan_and_request(path)
    if plan.warning:
        warn(plan.warning)
    findings = lint_plan(plan, read_text("--request", request) if request is not None else found_request)
    if as_json:
        print(json.dumps([one.model_dump() for one in findings], ensure_ascii=False, indent=2))
    else:
        for number, line in cast_lines(plan):
            typer.echo(shown_text(f"Step {number}, {line}."))
        for one in findings:
            typer.echo(f"{shown_text(one.sentence)} ({one.rule})")
        typer.echo(f"{plural(len(findings), 'finding')} in {plural(len(plan.steps), 'step')}.")
    return 3 if findings else 0
