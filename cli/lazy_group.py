"""Sub-commands that are imported when they are called and not when they are listed.

Decision: `--help` names every command from this one table, so that it costs no import of the pipeline. It is
also the one place where an error becomes a line on stderr and an exit code.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS = {
    "demo": (".commands.demo:command", "Tell a built-in story in the tiny world and write a page of it."),
    "run": (".commands.run:command", "Plan, draw, judge and redraw a request; the same --out again goes on."),
    "redraw": (".commands.run:redraw", "Ask for one more try at a step of a run; the next run draws it."),
    "plan": (".commands.plan:command", "Print the plan of a request without drawing it."),
    "judge": (".commands.judge:command", "Ask the critic about one pair of images."),
    "export": (".commands.export:command", "Write a run as a page, Markdown, a contact sheet or a record."),
    "evaluate": (".evaluate.command:app", "Measure planner, critic and whole stories."),
    "benchmark": (
        ".benchmark.app:app",
        "Run WISE, UEval, RISEBench, SpecV, CoMM or the tiny world's, and score it.",
    ),
    "data": (".data.command:app", "Make training data: prompts, trajectories, rows, packed to share."),
    "train": (".train.command:app", "Make training data and train planner and critic."),
    "serve": (".serve.command:app", "Serve image models over HTTP to many clients."),
    "prompts": (".commands.prompts:app", "Import the prompt set that a checkpoint was trained with."),
    "doctor": (".commands.doctor:command", "Show what is installed, found and missing, and how to get it."),
}
"""Name: where it is (a function or a typer app, relative to this package) and what the list says about it."""


EXTRAS = ("trl", "peft", "accelerate", "datasets", "yaml", "scipy", "tensorboard")
"""Modules of the optional `training` libraries: without them a command says so, anything else missing is a
fault."""
HOW_TO_GET = 'Install it: pip install "interleave-thinker[training]"'


class LazyCommand(TyperCommand):
    """Stands for a command in the list; the real one takes over when it is called."""

    def __init__(self, name: str, target: str, summary: str) -> None:
        super().__init__(name, help=summary)
        self.target = target

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the real command, which typer then invokes."""
        command = self.load()
        if "--help" in args:
            _name_plugins(command)
        return command.make_context(info_name, args, parent=parent, **extra)

    def load(self) -> Any:
        """Import the real command; raises SettingsError if a library that it needs is not installed."""
        module_name, _, attribute = self.target.partition(":")
        try:
            target = getattr(import_module(module_name, __package__), attribute)
        except ModuleNotFoundError as error:
            from ..backend.errors import SettingsError

            raise SettingsError(
                f"The command {self.name!r} needs {error.name!r}, which is not installed.", HOW_TO_GET
            ) from error
        if not isinstance(target, typer.Typer):
            single = typer.Typer(add_completion=False)
            single.command(self.name)(target)
            target = single
        command = typer.main.get_command(target)
        command.name = self.name
        return command


def _name_plugins(command: Any) -> None:
    """Add the installed plug-ins to the help of options that take them, those of sub-commands too."""
    from ..backend.chat import CHAT_BACKENDS
    from ..backend.exporters import EXPORTERS
    from ..backend.generators import GENERATORS
    from ..backend.scorers import SCORERS

    agents = {"planner": CHAT_BACKENDS, "critic": CHAT_BACKENDS}
    registries = {"generator": GENERATORS, "scorer": SCORERS, "to": EXPORTERS} | agents
    for option in command.params:
        names = registries[option.name].plugins if option.name in registries else []
        if names:
            option.help = f"{option.help} Installed plug-ins: {', '.join(names)}."
    for one in getattr(command, "commands", {}).values():
        _name_plugins(one)


class LazyGroup(TyperGroup):
    """The root command."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: LazyCommand(name, *entry) for name, entry in COMMANDS.items()}  # type: ignore[assignment]

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an InterleaveError becomes one red line and exit code 1, or 2 where the usage is
        wrong."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise typer.Exit(130) from stop
        except Exception as error:
            from ..backend.errors import Cancelled, InterleaveError, SettingsError
            from ..backend.shown_text import one_line

            absent = error.name if isinstance(error, ModuleNotFoundError) else None
            if absent in EXTRAS:
                error = SettingsError(f"This command needs {absent!r}, which is not installed.", HOW_TO_GET)
            if (option := getattr(error, "option_name", None)) is not None:
                from .renamed_options import new_option

                now = new_option(option, error.ctx.command)  # type: ignore[attr-defined]
                error = SettingsError(f"{option} is called {now} now.") if now else error
            if not isinstance(error, InterleaveError):
                raise
            if ctx.params.get("debug"):
                import traceback

                traceback.print_exception(error, file=sys.stderr)
            typer.secho(f"Error: {one_line(str(error))}", fg="red", err=True)
            code = 130 if isinstance(error, Cancelled) else 2 if isinstance(error, SettingsError) else 1
            raise typer.Exit(code) from error
