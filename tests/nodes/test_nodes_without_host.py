"""Parts of the node pack without ComfyUI: images, folders, reports, and errors for broken libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.cli_calls import python
from support.small_agents import STORY, OneInThree

from interleave_thinker import Picture, Request, RunSettings, SettingsError
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.output.live.browser_requests import known_run
from interleave_thinker.backend.output.live.live_run import RunView
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.nodes.inputs.images import mask_picture, to_batch, to_pictures
from interleave_thinker.nodes.inputs.run_folder import PARENT, run_folder
from interleave_thinker.nodes.inputs.validation import in_range
from interleave_thinker.nodes.sampling.identity import weights_identity

WORKFLOWS = Path(__file__).resolve().parents[2] / "workflows"


@pytest.mark.parametrize("value", [-1, 21, float("nan"), float("inf"), "3", None, [3]])
def test_a_number_out_of_range_or_another_value_names_node_and_field(value: Any) -> None:
    in_range("Critic Loop", 0, 20, check_story=20)
    with pytest.raises(SettingsError, match=r"Critic Loop, field 'check_story': .* is not between 0 and 20"):
        in_range("Critic Loop", 0, 20, check_story=value)


def test_images_are_unchanged_by_conversion_and_back() -> None:
    pixels = np.arange(256 * 3, dtype=np.uint8).reshape(16, 16, 3)
    batch = torch.from_numpy(pixels.astype(np.float32) / 255.0)[None]
    (picture,) = to_pictures(batch)
    np.testing.assert_array_equal(np.asarray(picture.image), pixels)
    assert torch.equal(to_batch(picture.image), batch)
    with pytest.raises(SettingsError, match="shape"):
        to_pictures(torch.zeros(1, 16, 16))


def test_images_of_every_kind_of_float_are_read_and_nothing_else() -> None:
    grey = torch.full((2, 4, 6, 3), 0.5)
    kinds = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    for batch in (*(grey.to(kind) for kind in kinds), torch.nn.Parameter(grey)):
        assert [picture.image.getpixel((0, 0)) for picture in to_pictures(batch)] == [(127, 127, 127)] * 2
    wrong = [
        None, 5, "image", [grey], {"samples": grey}, grey[0], grey[..., :0], grey[:0], grey[:, :0],
        grey[None, None], grey[None, :0], torch.zeros(1, 4, 6, 5), torch.zeros(1, 16, 16),
        grey.byte(), grey.bool(), grey.to(torch.complex64), torch.empty(1, 4, 6, 3, device="meta"),
        torch.zeros(1, 1, 1, 3).expand(1, 60_000, 60_000, 3),
    ]  # fmt: skip
    for value in wrong:
        with pytest.raises(SettingsError):
            to_pictures(value)


def test_images_of_one_to_four_channels_and_frames_of_a_video_are_read() -> None:
    pixels = torch.tensor([[[[0.2, 1.0], [0.8, 0.0]]]])
    shades = [51, 204]
    for batch in (pixels[..., :1], pixels[..., :1].expand(-1, -1, -1, 3), pixels[None, ..., :1]):
        (picture,) = to_pictures(batch)
        assert [picture.image.getpixel((x, 0)) for x in (0, 1)] == [(shade,) * 3 for shade in shades]
    for batch in (pixels, torch.cat([pixels[..., :1].expand(-1, -1, -1, 3), pixels[..., 1:]], -1)):
        (picture,) = to_pictures(batch)
        assert [picture.image.getpixel((x, 0)) for x in (0, 1)] == [(51,) * 3, (255,) * 3]
    video = torch.arange(6).reshape(2, 3, 1, 1, 1) / 255.0 * torch.ones(2, 3, 4, 6, 3) + 0.001
    assert [picture.image.getpixel((0, 0)) for picture in to_pictures(video)] == [(n,) * 3 for n in range(6)]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_a_pixel_that_is_no_finite_number_is_an_error(value: float, kind: torch.dtype) -> None:
    batch = torch.full((2, 4, 6, 3), 0.5)
    batch[1, 3, 5, 2] = value
    with pytest.raises(SettingsError, match=r"NaN or infinite.*overflowed"):
        to_pictures(batch.to(kind))


def test_a_mask_must_contain_numbers() -> None:
    whole = torch.ones(1, 4, 6)
    for mask in (whole, whole[0], whole.half(), torch.nn.Parameter(whole)):
        assert mask_picture(mask, "It").size == (6, 4)
    wrong = [
        "mask", [whole], {"samples": None}, whole.bool(), whole[:0], whole[None, None],
        whole * 0, whole * float("nan"),
        torch.empty(1, 4, 6, device="meta"), torch.ones(1, 1, 1).expand(1, 60_000, 60_000),
    ]  # fmt: skip
    for value in wrong:
        with pytest.raises(SettingsError):
            mask_picture(value, "It")


class Weights:
    """The part of the host's model patcher that an identity is read from."""

    def __init__(self, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.model = torch.nn.Linear(300, 200)
        self.backup: dict = {}
        self.patches: dict = {}
        self.object_patches: dict = {}
        self.object_patches_backup: dict = {}
        self.model_options: dict = {"transformer_options": {}}


def test_identity_follows_weights_patches_and_options_and_nothing_else() -> None:
    assert weights_identity(Weights()) == weights_identity(Weights())
    changed = [Weights(1), Weights(), Weights(), Weights(), Weights()]
    with torch.no_grad():
        changed[1].model.weight[0, 0] += 1
    changed[2].patches = {"weight": [(1.0, ("diff", (torch.ones(2, 2),)), 1.0, None, None)]}
    changed[3].patches = {"weight": [(0.5, ("diff", (torch.ones(2, 2),)), 1.0, None, None)]}
    changed[4].model_options = {"transformer_options": {"patches": {"attn": [len]}}}
    assert len({weights_identity(one) for one in [Weights(), *changed]}) == 6


# What a person reads


@pytest.mark.parametrize("judged", [True, False])
def test_the_view_of_a_run_never_runs_backwards_and_ends_full(judged: bool) -> None:
    settings = RunSettings(max_attempts=3)
    view = RunView(STORY, settings, judged)
    shares, lines = [], []
    critic = OneInThree() if judged else None
    for event in run(Request(text="r"), Collaborators(None, FakeGenerator(), critic), settings, plan=STORY):
        view.follow(event)
        shares.append(view.share)
        lines.append(view.line)
        assert view.within_attempt(1.0) <= 1.0 + 1 / 3 + 1e-9
    assert shares == sorted(shares) and shares[-1] == pytest.approx(1.0)
    assert any("attempt 1" in line for line in lines)


def test_loops_with_different_seeds_have_separate_runs(tmp_path: Path) -> None:
    request = Request(text="A boat.")
    assert len({run_folder(tmp_path, request, seed) for seed in (0, 5, 6, 2**48)}) == 4
    for seed in (0, 7, 2**48):
        found = run_folder(tmp_path, request, seed)
        found.mkdir(parents=True, exist_ok=True)
        assert known_run(tmp_path / PARENT, found.name) == found


def test_run_folders_are_apart_by_request_and_stay_below_the_output(tmp_path: Path) -> None:
    texts = ["A red house", "A red house!", "../../etc/passwd", "", "日本", "x" * 5000]
    folders = [run_folder(tmp_path, Request(text=text)) for text in texts]
    assert len(set(folders)) == len(texts)
    for folder in folders:
        assert folder.resolve().is_relative_to(tmp_path.resolve()) and len(folder.name) < 64
    image = Picture.white((8, 8))
    assert run_folder(tmp_path, Request(text="a", images=(image,))) != run_folder(tmp_path, Request(text="a"))


def test_runs_in_other_scripts_have_distinct_names(tmp_path: Path) -> None:
    boat, house = Request(text="一只红色的小船"), Request(text="一座小房子")
    new = run_folder(tmp_path, boat)
    assert new.name.startswith("一只红色的小船-") and run_folder(tmp_path, house).name.startswith(
        "一座小房子-"
    )
    new.mkdir(parents=True)
    assert known_run(tmp_path / PARENT, new.name) == new


@pytest.mark.parametrize("name", ["..", "a/../b", "/etc", "a\\b", "", "gone", "a\0b"])
def test_a_run_is_a_folder_directly_below_the_runs_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "interleave-thinker" / "b").mkdir(parents=True)
    with pytest.raises(SettingsError, match=r"The run .* was not found"):
        known_run(tmp_path / PARENT, name)


# Broken libraries


def test_the_pack_loads_without_the_libraries_that_may_be_broken() -> None:
    """The host's start must not import these libraries; each is imported by the node that uses it."""
    blocked = ("transformers", "diffusers", "torchvision", "json_repair", "jinja2", "httpx", "typer")
    code = (
        "import sys; sys.path.insert(0, 'tests')\n"
        f"for name in {blocked}: sys.modules[name] = None\n"
        "import conftest\n"
        "from interleave_thinker.backend.core.seams import chat_model, generator\n"
        "from interleave_thinker.backend.story.loop import loop\n"
        "from interleave_thinker.backend.output.exporters import sheet\n"
        "from interleave_thinker.nodes.inputs import images, named_models, run_folder, validation\n"
        "from interleave_thinker.nodes.sampling import identity, settings\n"
        "import interleave_thinker.nodes.story.saved_runs\n"
        "import interleave_thinker.backend.output.report.run_report"
    )
    answer = python(code, cwd=WORKFLOWS.parent)
    assert answer.returncode == 0, answer.stderr


# The example graphs

CLEAR = 36
"""Pixels between two nodes, 30 of them for the lower one's title."""


@pytest.mark.parametrize("path", sorted(WORKFLOWS.glob("*.json")), ids=lambda path: path.stem)
def test_example_graphs_are_complete(path: Path) -> None:
    graph = json.loads(path.read_text(encoding="ascii"))
    nodes = {node["id"]: node for node in graph["nodes"]}
    for link, origin, origin_slot, target, target_slot, kind in graph["links"]:
        assert link in nodes[origin]["outputs"][origin_slot]["links"]
        assert nodes[target]["inputs"][target_slot]["link"] == link
        assert kind in (nodes[origin]["outputs"][origin_slot]["type"], "*")
    boxes = [(*node["pos"], *node["size"]) for node in nodes.values()]
    for index, (left, top, width, height) in enumerate(boxes):
        for x, y, w, h in boxes[index + 1 :]:
            across = left + width <= x or x + w <= left
            apart = across or top + height + CLEAR <= y or y + h + CLEAR <= top
            assert apart, "two nodes overlap (a title is above its node)"
    assert path.with_suffix(".jpg").exists(), "the host shows a thumbnail of the same name"
