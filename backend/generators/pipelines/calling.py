"""Calls a pipeline, checks the images that it returns, and explains its errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import GeneratorError, OutOfMemory, is_out_of_memory
from ...pictures import Picture
from .kinds import arguments_of


def generated_by(pipeline: Any, arguments: dict[str, Any], number: int) -> list[Picture]:
    """Call a pipeline, and return its images.

    Floats are requested if the pipeline supports them, because bytes do not show that a model overflowed.
    diffusers' own function converts them to bytes.

    Args:
        pipeline: The pipeline.
        arguments: The arguments of its call.
        number: Number of images that the call must return.

    Raises:
        GeneratorError: A pixel is not finite, the safety checker rejected an image, or images are missing.
    """
    import numpy as np
    from diffusers.image_processor import VaeImageProcessor

    name = type(pipeline).__name__
    if "output_type" in arguments_of(pipeline):
        arguments = {**arguments, "output_type": "np"}
    output = pipeline(**arguments)
    images = output.images
    if isinstance(images, np.ndarray):
        if not np.isfinite(images).all():
            raise GeneratorError(
                f"{name} returned pixels that are NaN or infinite.",
                "The model overflowed: use dtype=bfloat16 or dtype=float32.",
            )
        images = VaeImageProcessor.numpy_to_pil(images)
    if any(getattr(output, "nsfw_content_detected", None) or ()):
        raise GeneratorError(
            f"{name} returned a black image: its safety checker rejected the result.",
            "Change the prompt or the seed.",
        )
    if len(images) != number:
        raise GeneratorError(f"{name} returned {len(images)} images for {number} prompts.")
    return [Picture(image) for image in images]


def raise_if_out_of_memory(error: RuntimeError, arguments: Mapping[str, Any]) -> None:
    """Raise an error with advice if memory did not suffice, and free the cached GPU memory.

    Args:
        error: The error of torch.
        arguments: The arguments of the pipeline.

    Raises:
        OutOfMemory: The error is about memory.
    """
    import torch

    if not is_out_of_memory(error):
        return
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    width, height = arguments.get("width"), arguments.get("height")
    area = f"{width}x{height}" if width else "the pipeline's own size"
    reason = " ".join(str(error).split())[:200]
    raise OutOfMemory(
        f"Out of memory while generating at {area} ({reason}).",
        "Reduce the size, set dtype=bfloat16 or device=cpu, or use a smaller model.",
    ) from error
