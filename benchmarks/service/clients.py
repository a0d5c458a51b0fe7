"""Other people's clients, and one picture by every way to it."""

from __future__ import annotations

import base64
import importlib
import importlib.util
import io
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from running import service

from interleave_thinker.backend.generators import open_generator
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.service.client_tools.requests import photograph_like

Figures = dict[str, Any]
REWARD = "train/EasyR1/verl/reward_function/interleave_thinker_reward.py"
FOREIGN = (
    "json_repair",
    "viescore",
    "viescore.vie_prompts",
    "viescore.utils",
    "google.genai",
    "google.genai.types",
)
TRIES, SECONDS = 10, 70.0
"""How the published reward calls its function."""


def pixels() -> Figures:
    """Digests of the same draws by the library, by one worker, by two, and by the Images API."""
    source = photograph_like((96, 96))
    local = open_generator("tinyworld")
    asked = [("a red boat", None, 3), ("a red boat", source, 4)]
    expected = [local.draw(*one).digest for one in asked]
    found: Figures = {}
    for workers in (1, 2):
        with service("tinyworld", workers, keep=0) as running:
            for kind in ("http", "images"):
                spec = f"http:{running.url}" if kind == "http" else f"images:model@{running.url}/v1"
                generator = open_generator(spec)
                drawn = [generator.draw(*one).digest for one in asked * workers]
                found[f"{kind}_{workers}_equal"] = drawn == expected * workers
    return found


def openai() -> Figures:
    """The package `openai` draws, edits, and is refused."""
    from openai import APIStatusError, OpenAI  # pyright: ignore[reportMissingImports]

    source = io.BytesIO(photograph_like((96, 96)).png())
    source.name = "source.png"
    with service("fake:96") as running:
        client = OpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0)
        made = client.images.generate(
            model="model", prompt="a boat", size="96x96", response_format="b64_json"
        )
        edited = client.images.edit(model="model", image=source, prompt="make it blue", n=2)
        try:
            client.images.generate(model="model", prompt="a boat", size="1x1x1")  # pyright: ignore
            refused = "not refused"
        except APIStatusError as error:
            refused = f"{error.status_code}"
    sizes = [
        Picture.from_bytes(base64.b64decode(one.b64_json or "")).size for one in (*made.data, *edited.data)
    ]
    return {"sizes": sizes, "refused": refused}


def published(checkout: str, seconds: float = 60.0) -> Figures:
    """Images that the published client loses when ten times too many of it ask, with and without patience."""
    module = _published(Path(checkout) / REWARD)
    found: Figures = {}
    for patience in (20.0, 0.0):
        with service("card:96:0.25", queue=20, patience=patience) as running:
            asker = Asker(module, running.url, time.time() + seconds)
            with redirect_stdout(io.StringIO()), ThreadPoolExecutor(40) as threads:
                counts = list(threads.map(asker.ask_on, range(40)))
        asked, lost = (sum(one[at] for one in counts) for at in (0, 1))
        found |= {f"asked_{patience:g}": asked, f"lost_share_{patience:g}": round(lost / asked, 4)}
    return found


class Asker:
    """Their function, called until a moment. 40 of them want ten times what the card draws in the time in
    which one of them alone would be answered."""

    def __init__(self, module: Any, url: str, until: float) -> None:
        self._module, self._until = module, until
        self._pool = module.EndpointPool([url])
        self._config = module.get_model_config("qwen-image-edit") | {"seed": 0}
        self._image = photograph_like((96, 96)).image

    def ask_on(self, number: int) -> tuple[int, int]:
        """How many images were asked for, and how many were lost."""
        asked = lost = 0
        while time.time() < self._until:
            answer = self._module.call_edit_model_api(
                f"boat {number} {asked}",
                self._image,
                self._pool,
                self._config,
                TRIES,
                SECONDS,
                time.time(),
            )
            asked, lost = asked + 1, lost + (answer is None)
        return asked, lost


def _published(path: Path) -> Any:
    """Their module; libraries of its other parts that are not here are empty."""
    for name in FOREIGN:
        if _absent(name):
            sys.modules[name] = MagicMock()
            parent, _, own = name.rpartition(".")
            if parent:
                setattr(importlib.import_module(parent), own, sys.modules[name])
    spec = importlib.util.spec_from_file_location("published_reward", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _absent(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is None
    except (ImportError, ValueError):
        return True
