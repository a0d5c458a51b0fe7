"""docs/examples/style_server.py and its page: the server generates the page's story, and explains refusals.

A network of one line replaces the real one: it multiplies the image by the weight of its style.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.cli_calls import call
from support.served_app import running

from interleave_thinker import load_trajectory

pytest.importorskip("fastapi")
ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "docs" / "examples" / "style_server.py"
PLAN = json.dumps(
    {
        "steps": [
            {"number": number, "prompt": f"Paint it in the style of {style}"}
            for number, style in enumerate(("starry", "mosaic", "print"), 1)
        ]
    }
)
STYLES = {"mosaic": 0, "starry": 1, "print": 2}
FACTORS = np.array([0.25, 0.5, 0.75], np.float32)
SIZE = (30, 21)
"""No multiples of 4."""

Serve = Callable[..., AbstractContextManager[str]]


class TinyNetwork:
    """The part of onnxruntime's session that the example uses."""

    def get_inputs(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(shape=[1, 3, "height", "width"]), SimpleNamespace(shape=[len(FACTORS)])]

    def run(self, outputs: None, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        image, weights = inputs["image"], inputs["style_weights"]
        assert image.dtype == weights.dtype == np.float32 and weights.sum() == 1
        assert image.shape[:2] == (1, 3) and image.shape[2] % 4 == image.shape[3] % 4 == 0
        return [image * (weights @ FACTORS)]


@pytest.fixture(scope="module")
def serve() -> Serve:
    import uvicorn

    style_app = runpy.run_path(str(EXAMPLE))["style_app"]

    @contextmanager
    def served(network: str = "digest", styles: dict[str, int] = STYLES) -> Iterator[str]:
        app = style_app(TinyNetwork(), styles, network)
        with running(uvicorn.Server(uvicorn.Config(app, log_level="error"))) as url:
            yield url

    return served


@pytest.fixture
def photograph(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (SIZE[1], SIZE[0], 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photograph.png")
    return tmp_path / "photograph.png"


def run(folder: Path, url: str, plan: str, *more: object) -> Any:
    (folder / "plan.json").write_text(plan, encoding="utf-8")
    options = ["--plan", folder / "plan.json", "--critic", "none", "--generator", url]
    return call("run", "A cup", *options, "--out", folder / "story", *more)


def test_a_story_is_the_photograph_in_three_styles(serve: Serve, photograph: Path, tmp_path: Path) -> None:
    with serve() as url:
        done = run(tmp_path, url, PLAN, "--image", photograph, "--set", "source=anchor")
    assert done.exit_code == 0, done.output
    pixels = np.asarray(Image.open(photograph)) / 255
    results = load_trajectory(tmp_path / "story").results
    prompts = [str(result.step.prompt) for result in results]
    for prompt, result in zip(prompts, results, strict=True):
        assert result.image is not None and result.image.size == SIZE
        factor = FACTORS[STYLES[prompt.rpartition(" ")[2]]]
        assert np.allclose(np.asarray(result.image.image) / 255, pixels * factor, atol=0.6 / 255)
    assert len(set(prompts)) == 3


@pytest.mark.parametrize(
    ("prompt", "with_image", "said"),
    [
        ("Paint it in the style of mosaic", False, "only edits images: add --image"),
        ("Make the cup blue", True, "one of these names: mosaic, starry, print"),
        ("In the style of mosaic and in the style of print", True, "one of these names"),
    ],
)
def test_an_impossible_step_says_what_to_do(
    serve: Serve, photograph: Path, tmp_path: Path, prompt: str, with_image: bool, said: str
) -> None:
    plan = json.dumps({"steps": [{"number": 1, "prompt": prompt}]})
    with serve() as url:
        done = run(tmp_path, url, plan, *(["--image", photograph] if with_image else []))
    assert done.exit_code == 3 and said in " ".join(done.output.split())
