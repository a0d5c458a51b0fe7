"""`interleave-thinker app`: stories in a browser without ComfyUI."""

from __future__ import annotations

import hashlib
import logging
import re
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...backend.core.errors import SettingsError
from ...backend.core.machine import libraries
from ...backend.core.types import RunSettings
from ...backend.models.generators import GENERATORS
from ...backend.pipeline.models import TINY_WORLD
from ...backend.story.agents.plan_constraints import PlanConstraints
from ...tinyworld import DEMO_REQUEST, DEMO_SEED
from ...tinyworld.vocabulary import unknown_words
from ...webapp.models import Chosen, Example, Offer, Role
from ...webapp.requests import PublicSettings, Refused
from ..models import NONE, CriticOptions, GeneratorOptions, LocalOptions, Opener, PlannerOptions
from ..settings import with_settings
from .doctor import found_models
from .run import STORIES
from .serve import key_for

if TYPE_CHECKING:
    from ...backend.core.seams.generator import Generator
    from ...backend.story.agents.critic import Critic
    from ...backend.story.agents.planner import Planner

LIBRARIES = ("fastapi", "uvicorn")
KEY = "INTERLEAVE_APP_KEY"
THIS_MACHINE = "127.0.0.1"
PORT = 8020
AGENT, IMAGE_MODEL = "Qwen/Qwen3-VL-8B-Instruct", "black-forest-labs/FLUX.2-klein-4B"
"""Models of the command that the page shows to those who want more than the tiny world."""
GRACE = 5.0
"""Seconds that a story has to stop with the app. After them it is like a kill, which loses nothing either."""


@partial(with_settings, without=("seed",))
def command(
    planning: PlannerOptions,
    judging: CriticOptions,
    drawing: GeneratorOptions,
    settings: RunSettings,
    constraints: PlanConstraints,
    public: PublicSettings,
    local: LocalOptions,
    runs: Annotated[
        Path, typer.Option(help="Folder of the stories, one run folder each. Existing ones are listed.")
    ] = STORIES,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 chooses a free one.")
    ] = PORT,
    host: Annotated[
        str,
        typer.Option(
            help=f"Address to listen on. Other machines need a key, in the environment variable {KEY}, as "
            "password; the connection is not encrypted."
        ),
    ] = THIS_MACHINE,
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = False,
) -> None:
    """Generate stories in a browser: type a request, watch, approve steps, export.

    Without model options it uses the tiny world, a toy world that needs neither a download nor a GPU. The
    page offers the models named here, and the agents that `doctor` finds. Stop it with Ctrl-C; the stories
    stay in --runs, and an unfinished one continues. With --public nothing is kept.
    """
    libraries.require(*LIBRARIES)
    key = None if public.public else key_for(host, KEY, "app", ", or try --public")
    models = OfferedModels(planning, judging, drawing, local, public.public)
    from ...service.settings import ServiceSettings
    from ...service.web.server import Work, run_service
    from ...webapp.app import create_app
    from ...webapp.board import Board
    from ...webapp.visitors import Visitors

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for name in ("uvicorn", "interleave_thinker.service", "httpx"):
        logging.getLogger(name).setLevel(logging.WARNING)

    def ready(addresses: list[str]) -> None:
        typer.echo("Nothing is kept: stories are deleted." if public.public else f"Stories are in {runs}")
        typer.echo(f"Open {addresses[0]} in a browser. Ctrl-C ends the app.")
        if show:
            typer.launch(addresses[0])

    with tempfile.TemporaryDirectory(prefix="interleave-public-") as folder:
        boards = (
            Visitors(Path(folder), models, settings, constraints, public)
            if public.public
            else Board(runs.absolute(), models, settings, constraints)
        )
        work = Work(boards.close, lambda: int(boards.busy))
        service = ServiceSettings(host=host, port=port, grace=GRACE)
        run_service(create_app(boards, host, key), service, [port], ready, work)


class Opened:
    """The models of a story. Critic and generator are opened when they are first needed, and kept."""

    def __init__(self, opener: Opener, options: dict[Role, Any]) -> None:
        self._opener, self._planning = opener, options["planner"]
        self.critic: Callable[[], Critic | None] = cache(partial(opener.critic, options["critic"]))
        self.generator: Callable[[], Generator] = cache(partial(opener.generator, options["generator"]))

    def planner(self, on_part: Callable[[str], None]) -> Planner:
        """Open the planner. Raises SettingsError and ChatError as `Opener.planner` does."""
        return self._opener.planner(self._planning, on_part)


class OfferedModels:
    """The models of the command line, the tiny world, and agents in folders that the product knows.

    Only the models named on the command line get its options. The models of the last story stay loaded.
    """

    def __init__(
        self,
        planning: PlannerOptions,
        judging: CriticOptions,
        drawing: GeneratorOptions,
        local: LocalOptions,
        only_named: bool = False,
    ) -> None:
        self.example = Example(request=DEMO_REQUEST, seed=DEMO_SEED)
        self._named: dict[Role, Any] = {"planner": planning, "critic": judging, "generator": drawing}
        self._local = local
        self._last: tuple[Chosen, Opened] | None = None
        # Wrong names, paths and options are errors of the command, and not of the first story.
        Opener(local).check(planning, judging, drawing)
        agents = [] if only_named else _found_agents()
        others = [] if only_named else [TINY_WORLD]
        self._specs: dict[Role, list[str]] = {
            "planner": _once(planning.planner, *others, *agents),
            "critic": _once(judging.critic, *others, *([] if only_named else [NONE]), *agents),
            "generator": _once(drawing.generator, *others),
        }
        agent = next(iter(agents), f"transformers:{AGENT}")
        self.command = (
            f"interleave-thinker app --planner {agent} --critic {agent} --generator diffusers:{IMAGE_MODEL} "
            "--download"
        )

    def offered(self) -> dict[Role, list[Offer]]:
        """Return the models by role, those of the command line first."""
        return {
            role: [
                Offer(
                    name=name_of(spec), label=label_of(spec), toy=_is_toy(spec), sized=_is_sized(role, spec)
                )
                for spec in specs
            ]
            for role, specs in self._specs.items()
        }

    def check(self, chosen: Chosen, request: str) -> None:
        """Check that the models are offered, and that a tiny planner knows the words of the request.

        Raises:
            SettingsError: A model is not offered, or its images have one size only.
            Refused: A word is unknown.
        """
        for role in self._specs:
            self._spec(role, chosen)
        if chosen.size and not _is_sized("generator", self._spec("generator", chosen)):
            raise SettingsError("The image model does not support a size.", "Leave the size empty.")
        unknown = unknown_words(request) if _is_toy(self._spec("planner", chosen)) else []
        if unknown:
            raise Refused(400, "The tiny world does not know all words of the request.", unknown=unknown)

    def open(self, chosen: Chosen) -> Opened:
        """Return the models. Those of the last story are used again, others are unloaded.

        Raises:
            SettingsError: A model is not offered.
        """
        if self._last is None or self._last[0] != chosen:
            self._last = None
            options: dict[Role, Any] = {}
            for role, named in self._named.items():
                spec = self._spec(role, chosen)
                options[role] = named if spec == getattr(named, role) else type(named)(**{role: spec})
            if chosen.size:
                options["generator"] = options["generator"].model_copy(update={"size": chosen.size})
            self._last = chosen, Opened(Opener(self._local), options)
        return self._last[1]

    def _spec(self, role: Role, chosen: Chosen) -> str:
        name = getattr(chosen, role)
        for spec in self._specs[role]:
            if name_of(spec) == name:
                return spec
        raise SettingsError(
            f"The {role} {name[:100]!r} is not offered.", "Start the app with the models of this story."
        )


def name_of(spec: str) -> str:
    """Return the name of a model in requests: without a path, an address, or a password in one."""
    if ":" not in spec:
        return spec
    return f"{label_of(spec)} {hashlib.blake2b(spec.encode(), digest_size=4).hexdigest()}"


def label_of(spec: str) -> str:
    """Return the name of a model on the page: the last part of its folder or name, and its kind."""
    kind, _, argument = spec.partition(":")
    model = argument.partition("@")[0].rstrip("/\\")
    last = "" if "://" in model else re.split(r"[/\\]", model)[-1][:80]
    return f"{last} ({kind})" if last else kind


def _is_toy(spec: str) -> bool:
    return spec.partition(":")[0] == TINY_WORLD


def _is_sized(role: Role, spec: str) -> bool:
    return role == "generator" and spec != NONE and "size" in GENERATORS.option_names(spec)


def _once(*specs: str) -> list[str]:
    return list(dict.fromkeys(specs))


def _found_agents() -> list[str]:
    """Return the specs of the agents in the folders that `doctor` looks into."""
    found = found_models()
    folders = [path for path in found["comfyui"] if (path / "config.json").is_file()]
    names = ["/".join(path.name.split("--")[1:]) for path in found["hub"]]
    return [f"transformers:{one}" for one in (*folders, *names)]
