"""Similarity of an image with its prompt, or with its source image, by CLIP or SigLIP.

These models are small and fast, but do not understand an edit: they compare an image with a description of
it. So the prompts must describe the whole image, or `of=source` measures how much of the source is preserved.
CLIP's score is CLIPScore (arXiv 2104.08718), 2.5 times the cosine; SigLIP's is the probability of its sigmoid
(arXiv 2303.15343). Prompts longer than the text encoder's context are cut off.
"""

from __future__ import annotations

from ...chat.image_limits import MAX_PIXELS_BOUND, scaled_down
from ...errors import ScorerError, SettingsError
from ...pictures import Picture
from ...types import Score
from ..protocol import Parts
from .folder_model import LocalModel

FAMILIES = {"clip": "CLIPModel", "siglip": "SiglipModel"}
CLIP_WEIGHT = 2.5
OF = ("prompt", "source")


class SimilarityScorer:
    """Scores semantics by the similarity of two embeddings; does not measure quality.

    Args:
        model: CLIP or SigLIP.
        of: What the image is compared with, "prompt" or "source".
    """

    def __init__(self, model: LocalModel, of: str = "prompt") -> None:
        self.model, self.of = model, of

    @property
    def identity(self) -> str:
        """Identity of the model, and what the image is compared with."""
        return f"similarity/1:{self.model.identity}:{self.of}"

    def parts(self, before: Picture | None, after: Picture, instruction: str) -> Parts:
        """Return the similarity as semantics. Arguments and errors are those of `score`."""
        if self.of == "source":
            return Parts(None if before is None else self._with_source(before, after), None)
        return Parts(self._with_prompt(after, instruction), None)

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        """Return the similarity as semantics, with a constant quality.

        Args:
            before: Source image. Without one, `of=source` measures nothing.
            after: Image to score.
            instruction: Original prompt of the step.

        Raises:
            ScorerError: The model failed.
        """
        return self.parts(before, after, instruction).score

    def offload(self) -> None:
        """Free the device until the next call."""
        self.model.offload()

    def _with_prompt(self, image: Picture, text: str) -> float:
        with self.model.ready() as model:
            # SigLIP was trained with texts padded to its whole context.
            padding = "max_length" if self.model.family == "siglip" else True
            shown = scaled_down(image, MAX_PIXELS_BOUND).image
            inputs = self.model.processor(
                text=[text], images=[shown], padding=padding, truncation=True, return_tensors="pt"
            ).to(self.model.device)
            found = model(**inputs)
            if self.model.family == "siglip":
                return _bounded(10 * float(found.logits_per_image.sigmoid()[0, 0]))
            return _bounded(10 * CLIP_WEIGHT * float((found.image_embeds @ found.text_embeds.T)[0, 0]))

    def _with_source(self, before: Picture, after: Picture) -> float:
        import torch

        with self.model.ready() as model:
            images = [scaled_down(one, MAX_PIXELS_BOUND).image for one in (before, after)]
            inputs = self.model.processor(images=images, return_tensors="pt").to(self.model.device)
            found = model.get_image_features(**inputs)
            # Newer libraries return an object.
            features = getattr(found, "pooler_output", found)
            return _bounded(10 * float(torch.cosine_similarity(features[:1], features[1:])[0]))


def _bounded(value: float) -> float:
    if value != value:
        raise ScorerError("The similarity is not a number.", "Check the model: its weights may be damaged.")
    return min(10.0, max(0.0, value))


def open(argument: str, *, of: str = "prompt", device: str | None = None) -> SimilarityScorer:
    """Open CLIP or SigLIP.

    Args:
        argument: Folder of the model.
        of: What the image is compared with: prompt or source.
        device: Device of the model.

    Raises:
        SettingsError: The folder does not contain such a model, or `of` is unknown.
    """
    if of not in OF:
        raise SettingsError(f"Unknown of={of!r}.", f"Known: {', '.join(OF)}.")
    return SimilarityScorer(LocalModel(argument, FAMILIES, device), of)
