"""Subcommands that are imported when they are called, and the exit code of errors.

`--help` lists the commands from one table, so that it does not import the pipeline. An error is turned into
one line on stderr and an exit code in one place, here.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS = {
    "demo": (".commands.run:demo", "Run a built-in story and write its page; no downloads, no GPU."),
    "run": (".commands.run:command", "Plan, generate, judge and refine a story. The same --out resumes it."),
    "app": (".commands.app:command", "Generate stories in a browser: watch, approve steps, export."),
    "redraw": (".commands.decide:redraw", "Request one more attempt at a step of a run."),
    "approve": (".commands.decide:approve", "Approve what a paused run waits for, or decide otherwise."),
    "plan": (".commands.agents:plan", "Print the plan of a request without generating images."),
    "judge": (".commands.agents:judge", "Ask the critic about one image."),
    "export": (
        ".commands.export:export",
        "Write a run as a page, PDF, book, comic, animation, Markdown or JSON.",
    ),
    "clips": (".commands.export:clips", "Make the videos between the images of a story."),
    "cast": (".commands.cast:app", "Generate reference images for the members of a cast."),
    "evaluate": (".evaluate:app", "Measure a critic: verdicts on labelled rows, checklist, calibration."),
    "data": (".commands.data:app", "Make training data from runs, feedback and labelled pairs."),
    "train": (".train.command:app", "Train planner and critic: SFT, GRPO, your own critic."),
    "serve": (".commands.serve:app", "Serve image models over HTTP."),
    "prompts": (".commands.agents:prompts", "Store a prompt set with a checkpoint."),
    "doctor": (
        ".commands.doctor:command",
        "Show installed packages, devices and models, and what is missing.",
    ),
}
"""Command name: its function or typer app, relative to this package, and its line in `--help`.

The other commands are plug-ins: entry points named COMMAND, or GROUP.COMMAND for a command of a group above.
"""


SUMMARIES = {"benchmark": "Run and score WISE, UEval, RISEBench, SpecV or CoMM."}
"""Lines in `--help` of the commands that research/ adds; those of other plug-ins are not read for it."""
EXTRAS = ("trl", "peft", "accelerate", "datasets", "yaml", "scipy", "tensorboard")
"""Modules of the optional `training` libraries. If another module is missing, that is a bug."""
HOW_TO_GET = 'Install it, in the folder of this package: pip install ".[training]"'


class LazyCommand(TyperCommand):
    """Placeholder of a command in `--help`; it loads the real command when called."""

    def __init__(self, name: str, target: str, summary: str) -> None:
        super().__init__(name, help=summary)
        self.target = target

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of the real command, which typer then invokes."""
        command = self.load()
        if words := [arg.partition("=")[2] for arg in args if arg.startswith("--help=")]:
            from .long_help import explain

            explain(command, [self.name or "", *args], words[0])
            raise typer.Exit
        return command.make_context(info_name, args, parent=parent, **extra)

    def load(self) -> Any:
        """Import the real command; a group gets the commands of plug-ins too.

        Raises:
            ModuleNotFoundError: A library that it needs is not installed.
            SettingsError: A plug-in cannot be loaded.
        """
        target = self._imported()
        if not isinstance(target, typer.Typer):
            single = typer.Typer(add_completion=False)
            single.command(self.name)(target)
            target = single
        target.rich_markup_mode = None  # plain help: two columns, and no import of rich
        command = typer.main.get_command(target)
        command.name = self.name
        if isinstance(command, TyperGroup):
            own = command.commands
            own.update(
                {name: one.loaded() for name, one in plugins(f"{self.name}.").items() if name not in own}
            )
        return command

    def _imported(self) -> Any:
        module_name, _, attribute = self.target.partition(":")
        return getattr(import_module(module_name, __package__), attribute)


class PluginCommand(LazyCommand):
    """Command of a plug-in. Its target is the name of the entry point."""

    def _imported(self) -> Any:
        from ..backend.core.machine.registry import COMMANDS, find_plugin, load_plugin

        entry = find_plugin(COMMANDS, self.target)
        assert entry is not None
        return load_plugin(entry, "app")[1]

    def loaded(self) -> Any:
        """Return the real command, or this placeholder if it cannot be loaded: others of its group work."""
        from ..backend.core.errors import SettingsError

        try:
            return self.load()
        except SettingsError:
            return self


def plugins(group: str = "") -> dict[str, PluginCommand]:
    """Return the commands of plug-ins by name: the top-level ones, or those of a group, such as `data.`."""
    from ..backend.core.machine.registry import COMMANDS, plugin_names

    names = [name.removeprefix(group) for name in plugin_names(COMMANDS) if name.startswith(group)]
    found = {one: PluginCommand(one, group + one, SUMMARIES.get(one, "From a plug-in.")) for one in names}
    return {name: command for name, command in found.items() if "." not in name}


class LazyGroup(TyperGroup):
    """The root command."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: LazyCommand(name, *entry) for name, entry in COMMANDS.items()}  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, those of plug-ins last."""
        self.commands = {**plugins(), **self.commands}  # type: ignore[assignment]
        return sorted(self.commands, key=[*COMMANDS, *self.commands].index)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name. Plug-ins are looked up only for names that are not built in."""
        if cmd_name not in self.commands:
            self.list_commands(ctx)
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: Any) -> Any:
        """Run the command.

        Raises:
            typer.Exit: With code 2 after a usage error, 130 after Ctrl-C or a cancellation, 1 after any other
                InterleaveError; the error is printed as one red line.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise typer.Exit(130) from stop
        except Exception as error:
            from ..backend.core.errors import Cancelled, InterleaveError, SettingsError
            from ..backend.core.shown_text import one_line

            absent = error.name if isinstance(error, ModuleNotFoundError) else None
            if absent in EXTRAS:
                error = SettingsError(f"This command needs {absent!r}, which is not installed.", HOW_TO_GET)
            error = _explained(error)
            if not isinstance(error, InterleaveError):
                raise
            if ctx.params.get("debug"):
                import traceback

                traceback.print_exception(error, file=sys.stderr)
            typer.secho(f"Error: {one_line(str(error))}", fg="red", err=True)
            code = 130 if isinstance(error, Cancelled) else 2 if isinstance(error, SettingsError) else 1
            raise typer.Exit(code) from error


def _explained(error: Exception) -> Exception:
    """Return what tells more about an unknown name than the error, or the error itself."""
    from ..backend.core.errors import SettingsError
    from .removed import of_error

    context, option = getattr(error, "ctx", None), getattr(error, "option_name", None)
    if found := of_error(error):
        return found
    unknown = re.match(r"No such command '([\w-]+)'\.$", str(getattr(error, "message", "")))
    if context is not None and unknown is not None:
        near = [name for name in context.command.list_commands(context) if unknown[1] in name]
        if near:
            return SettingsError(f"No such command {unknown[1]!r}.", f"Did you mean {' or '.join(near)}?")
    if context is None or option is None:
        return error
    from .settings import instead_of

    return instead_of(context, option) or error
