"""Parts of the user's graph for the Step Generator, such as a guider, sampler, ControlNet or mask.

Each replaces one part of a step. Contradictions between two of them, or with a setting, are reported before
the first step.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from ...backend.core.errors import GeneratorError, SettingsError
from .. import host
from .edit_mode import EditContext, SamplingStart, size_of
from .identity import graph_identity

SHAPE_TOLERANCE = 0.02
MAX_NUMBERS = 2**28
"""Maximum number of values in sigmas or masks: no image needs more."""
PARTS = {
    "guider": ("model_patcher", "original_conds", "set_conds", "sample"),
    "sampler": ("sample",),
    "noise": ("generate_noise",),
}
"""Attributes that the host's sampling needs, since an output of any type can be connected."""


@dataclass(frozen=True)
class StepOptions:
    """Parts of a graph by the node's input names; `None` leaves the part to the Step Generator."""

    guider: Any = None
    sampler: Any = None
    sigmas: torch.Tensor | None = None
    noise: Any = None
    negative: list | None = None
    conditioning: list | None = None
    mask: torch.Tensor | None = None

    @property
    def identity(self) -> str:
        """Readable identity of the given parts, "" for none."""
        given = {
            field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None
        }
        if "conditioning" in given:
            given["conditioning"] = host.applied_to(given["conditioning"])
        return " ".join(f"{name}={graph_identity(value)}" for name, value in given.items())

    def check(self, context: EditContext) -> None:
        """Check the parts.

        Raises:
            SettingsError: A part does not fit the model, or would be ignored.
        """
        self._check_kinds()
        if self.guider is not None:
            host.check_guider(self.guider, context.traits.name)
        if self.noise is not None and not hasattr(self.noise, "seed"):
            raise SettingsError(
                "Step Options: the connected noise has no seed, so every attempt would give the same image.",
                "Connect RandomNoise, or disconnect it.",
            )
        if self.sigmas is not None and (self.sigmas.ndim != 1 or len(self.sigmas) < 2):
            raise SettingsError(
                "Step Options: the connected sigmas contain no step.",
                "Connect a scheduler with at least one step.",
            )
        if self.negative is not None and self.guider is None and context.unguided:
            raise SettingsError(
                "Step Options: at cfg 1, the connected negative is ignored.",
                "Set cfg above 1, or disconnect the negative.",
            )
        if self.negative is not None and context.settings.negative:
            raise SettingsError(
                "Both a negative prompt and a negative conditioning are set.",
                "Clear the prompt, or disconnect the conditioning.",
            )
        if self.conditioning is not None:
            host.applied_to(self.conditioning)
        if self.mask is not None and not torch.count_nonzero(self.mask):
            raise SettingsError(
                "Step Options: the connected mask is empty, so no step could change anything.",
                "Paint the part that steps may change, or disconnect the mask.",
            )

    def _check_kinds(self) -> None:
        wrong = [
            name
            for name, parts in PARTS.items()
            if (value := getattr(self, name)) is not None
            and any(getattr(value, one, None) is None for one in parts)
        ]
        wrong += [name for name in ("negative", "conditioning") if not _is_conditioning(getattr(self, name))]
        wrong += [name for name in ("sigmas", "mask") if not _is_finite(getattr(self, name))]
        if wrong:
            raise SettingsError(
                f"Step Options, input {wrong[0]!r}: the connected value has the wrong type.",
                "Check what is connected to it.",
            )

    def started(
        self, context: EditContext, start: SamplingStart, source: torch.Tensor | None
    ) -> SamplingStart:
        """Return the start of sampling with the parts applied; a masked edit starts from the source."""
        if self.conditioning is not None:
            positive, negative, middle = host.with_applied(
                self.conditioning, start.positive, start.negative, start.middle
            )
            start = replace(start, positive=positive, negative=negative, middle=middle)
        if self.mask is not None and source is not None and not torch.count_nonzero(start.latent):
            start = replace(start, latent=context.vae.encode(self._kept(context, start, source)))
        return start

    def noise_mask(self, source: torch.Tensor | None) -> torch.Tensor | None:
        """Return the mask for the sampler, `(1, 1, height, width)`; `None` for a step without a source.

        Raises:
            GeneratorError: Mask and source have different shapes.
        """
        if self.mask is None or source is None:
            return None
        height, width = self.mask.shape[-2:]
        wide, high = size_of(source)
        if abs(width * high / (height * wide) - 1) > SHAPE_TOLERANCE:
            raise GeneratorError(
                f"The mask ({width}x{height} pixels) and the image of the step ({wide}x{high}) have "
                "different shapes.",
                "Use a mask with the shape of the image.",
            )
        return self.mask.reshape((-1, 1, height, width))[:1]

    def pasted(
        self, context: EditContext, start: SamplingStart, drawn: torch.Tensor, source: torch.Tensor | None
    ) -> torch.Tensor:
        """Return the generated image inside the mask and the source outside."""
        if self.mask is None or source is None:
            return drawn
        place = {"x": 0, "y": 0, "resize_source": False, "mask": self.mask[:1]}
        kept = self._kept(context, start, source)
        return host.call_node("ImageCompositeMasked", destination=kept, source=drawn, **place)[0]

    @staticmethod
    def _kept(context: EditContext, start: SamplingStart, source: torch.Tensor) -> torch.Tensor:
        ratio = context.traits.pixels_per_latent
        size = start.latent.shape[-1] * ratio, start.latent.shape[-2] * ratio
        return source if size == size_of(source) else host.scale(source, size, "lanczos", "center")


def _is_conditioning(value: Any) -> bool:
    return value is None or (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(entry, (list, tuple)) and len(entry) == 2 and isinstance(entry[1], dict)
            for entry in value
        )
    )


def _is_finite(value: Any) -> bool:
    """Return whether a value is `None` or a tensor of finite numbers (NaN would give a black image)."""
    if value is None:
        return True
    is_real = isinstance(value, torch.Tensor) and not value.is_meta and not value.is_complex()
    return is_real and value.numel() <= MAX_NUMBERS and bool(torch.isfinite(value).all())
