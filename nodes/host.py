"""The host as this pack sees it: folders, memory, progress and interrupt. The only file that touches `comfy`.

Decision: nodes and the sampling adapter speak to these few functions, so that a change in the host is mended in one
place. An agent's model is handed to the host's memory manager whole: plain torch modules cannot be cast on demand, so
half a model on the card would fail at its first layer. Interrupts travel as the backend's `Cancelled` and become the
host's own exception again at the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import comfy.model_management as memory
import comfy.sample
import comfy.samplers
import comfy.utils
import folder_paths
import latent_preview
import node_helpers
import torch
from comfy.model_patcher import ModelPatcher
from comfy_api.latest import io, ui
from comfy_execution.graph_utils import ExecutionBlocker
from comfy_execution.utils import get_executing_context
from PIL import Image
from server import PromptServer

from ..backend.errors import Cancelled, GeneratorError

AGENT_FOLDER = "interleave_agents"
PROGRESS_UNITS = 1000
PREVIEW_PIXELS = 512
STOPPED = "Stopped from ComfyUI."

Preview = tuple[str, Image.Image, int]
StepListener = Callable[[float, Preview | None], None]

_step_listener: ContextVar[StepListener | None] = ContextVar("interleave_step_listener", default=None)


# Folders


def register_folders() -> None:
    """Make models/interleave_agents a model folder; entries of extra_model_paths.yaml are there already."""
    default = Path(folder_paths.models_dir) / AGENT_FOLDER
    folder_paths.add_model_folder_path(AGENT_FOLDER, str(default), is_default=True)


def agent_roots() -> list[Path]:
    """Every folder in which agents' checkpoints may lie, the default one first."""
    if AGENT_FOLDER not in folder_paths.folder_names_and_paths:
        register_folders()
    return [Path(root) for root in folder_paths.get_folder_paths(AGENT_FOLDER)]


def output_folder() -> Path:
    """The host's output folder."""
    return Path(folder_paths.get_output_directory())


# Interrupt


def stop_if_interrupted() -> None:
    """Raise Cancelled if the user pressed cancel; the host's flag stays set for the node to clear."""
    if memory.processing_interrupted():
        raise Cancelled(STOPPED)


@contextmanager
def host_interrupts() -> Iterator[None]:
    """Inside a node: Cancelled from the backend becomes the host's own interrupt, so that the prompt ends as cancelled."""
    try:
        yield
    except Cancelled as stopped:
        memory.throw_exception_if_processing_interrupted()
        raise memory.InterruptProcessingException() from stopped


@contextmanager
def drawing() -> Iterator[None]:
    """Inside a draw: the host's interrupt becomes Cancelled, which the loop knows, and want of memory says what to do."""
    try:
        yield
    except memory.InterruptProcessingException as interrupt:
        memory.interrupt_current_processing()
        raise Cancelled(STOPPED) from interrupt
    except memory.OOM_EXCEPTION as error:
        memory.soft_empty_cache()
        raise GeneratorError(
            "Step Generator: the image does not fit into the memory of the card.",
            "Choose a smaller width and height, or start ComfyUI with --lowvram.",
        ) from error


# Memory


class AgentModel(torch.nn.Module):
    """Owns the `device` that the memory manager sets: on a transformers model it is a read-only property."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model
        self.device = torch.device("cpu")


class _WholePatcher(ModelPatcher):
    """All or nothing: refusing to unload a part makes the manager unload the whole."""

    def partially_unload(self, *args: object, **kwargs: object) -> int:
        return 0


_managed: WeakValueDictionary[int, ManagedModel] = WeakValueDictionary()
"""By the identity of the model, which stays alive as long as its entry."""


class ManagedModel:
    """A torch model under the host's memory management; it is on the card only after `ensure_loaded`."""

    def __init__(self, model: torch.nn.Module) -> None:
        load, offload = memory.get_torch_device(), memory.text_encoder_offload_device()
        self._patcher = _WholePatcher(AgentModel(model), load_device=load, offload_device=offload)

    @classmethod
    def of(cls, model: torch.nn.Module) -> ManagedModel:
        """The one manager of this model: planner and critic may share a base, which can only be in one place."""
        managed = _managed.get(id(model))
        if managed is None:
            managed = _managed[id(model)] = cls(model)
        return managed

    def ensure_loaded(self, working_bytes: int) -> None:
        """Have the whole model on its device, with `working_bytes` free beside it; nearly free if it is there."""
        memory.load_models_gpu([self._patcher], memory_required=working_bytes, force_full_load=True)


# Progress


class NodeProgress:
    """Bar, preview image and line of text on the node that is running."""

    def __init__(self) -> None:
        context = get_executing_context()
        self._node = context.node_id if context else None
        self._bar = comfy.utils.ProgressBar(PROGRESS_UNITS, node_id=self._node)

    def show(self, share: float, preview: Preview | None = None) -> None:
        """Set the bar to a share of 0..1."""
        try:
            self._bar.update_absolute(int(share * PROGRESS_UNITS), PROGRESS_UNITS, preview)
        except memory.InterruptProcessingException:
            # Showing is not the place to stop: the flag stays set, and the next draw or reply ends the run in order.
            memory.interrupt_current_processing()

    def say(self, text: str) -> None:
        """Show a line of text on the node, replacing the one before."""
        server = getattr(PromptServer, "instance", None)
        if server is not None and self._node is not None:
            server.send_progress_text(text, self._node, server.client_id)


def as_preview(image: Image.Image) -> Preview:
    """An image as the host's progress wants it."""
    return ("JPEG", image, PREVIEW_PIXELS)


@contextmanager
def listening_to_steps(listener: StepListener) -> Iterator[None]:
    """While inside, sampling reports its share (0..1) and preview here instead of moving the node's bar itself."""
    token = _step_listener.set(listener)
    try:
        yield
    finally:
        _step_listener.reset(token)


def report_step(share: float, preview: Preview | None) -> None:
    """Tell whoever listens how far the sampling is; raises Cancelled if the user pressed cancel."""
    listener = _step_listener.get()
    if listener is not None:
        listener(share, preview)
    stop_if_interrupted()


# Results


def shown_images(batches: Sequence[torch.Tensor], node: type[io.ComfyNode]) -> dict[str, Any]:
    """The node's own display of these images, kept in the host's temporary folder."""
    results = [result for batch in batches for result in ui.PreviewImage(batch, cls=node).values]
    return {"images": results, "animated": (False,)}


def nothing() -> ExecutionBlocker:
    """Value of an output that has nothing: what hangs on it is left out instead of failing."""
    return ExecutionBlocker(None)


# Sampling, each as the host's own node of that name does it


def samplers() -> list[str]:
    """Names of the host's samplers."""
    return list(comfy.samplers.SAMPLER_NAMES)


def schedulers() -> list[str]:
    """Names of the host's noise schedules."""
    return list(comfy.samplers.SCHEDULER_NAMES)


def model_sigmas(model: Any, sampler: str, scheduler: str, steps: int, denoise: float) -> torch.Tensor:
    """Noise levels of one of the host's schedules for this model (KSampler)."""
    plan = comfy.samplers.KSampler(
        model, steps=steps, device=torch.device("cpu"), sampler=sampler, scheduler=scheduler, denoise=denoise
    )
    return plan.sigmas


def flux2_sigmas(steps: int, size: tuple[int, int]) -> torch.Tensor:
    """Noise levels of FLUX.2 for an image of this width and height (Flux2Scheduler)."""
    from comfy_extras.nodes_flux import get_schedule

    return get_schedule(steps, round(size[0] * size[1] / (16 * 16)))


def encode_text(clip: Any, text: str) -> list:
    """Conditioning of a prompt (CLIPTextEncode)."""
    return clip.encode_from_tokens_scheduled(clip.tokenize(text))


def zero_out(conditioning: list) -> list:
    """The conditioning with nothing in it (ConditioningZeroOut)."""
    from nodes import ConditioningZeroOut

    return ConditioningZeroOut().zero_out(conditioning)[0]


def add_reference(conditioning: list, latent: torch.Tensor) -> list:
    """The conditioning with one more image to edit (ReferenceLatent)."""
    return node_helpers.conditioning_set_values(conditioning, {"reference_latents": [latent]}, append=True)


def scale(pixels: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """Images `[B, H, W, C]` at another width and height, nearest-exact (ImageScaleToTotalPixels of the templates)."""
    return comfy.utils.common_upscale(
        pixels.movedim(-1, 1), size[0], size[1], "nearest-exact", "disabled"
    ).movedim(1, -1)


def empty_latent(model: Any, size: tuple[int, int]) -> torch.Tensor:
    """Zeros of the shape that this model's latents have for an image of this width and height."""
    latent_format = model.get_model_object("latent_format")
    ratio = latent_format.spacial_downscale_ratio
    shape = [1, latent_format.latent_channels, size[1] // ratio, size[0] // ratio]
    empty = torch.zeros(shape, device=memory.intermediate_device())
    return comfy.sample.fix_empty_latent_channels(model, empty)


def sample(
    model: Any,
    conditioning: tuple[list, list],
    cfg: float,
    sampler: str,
    sigmas: torch.Tensor,
    latent: torch.Tensor,
    seed: int,
) -> torch.Tensor:
    """Latent after sampling (CFGGuider, RandomNoise, SamplerCustomAdvanced), reporting every step."""
    previewer = latent_preview.get_previewer(model.load_device, model.model.latent_format)

    def on_step(step: int, denoised: torch.Tensor, noisy: torch.Tensor, total: int) -> None:
        preview = previewer.decode_latent_to_preview_image("JPEG", denoised) if previewer else None
        report_step((step + 1) / total, preview)

    guider = comfy.samplers.CFGGuider(model)
    guider.set_conds(*conditioning)
    guider.set_cfg(cfg)
    noise = comfy.sample.prepare_noise(latent, seed)
    result = guider.sample(
        noise, latent, comfy.samplers.sampler_object(sampler), sigmas,
        callback=on_step, disable_pbar=not comfy.utils.PROGRESS_BAR_ENABLED, seed=seed,
    )  # fmt: skip
    return result.to(memory.intermediate_device())
