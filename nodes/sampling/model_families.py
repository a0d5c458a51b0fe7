"""Model families and their edit methods.

The host has no flag for it, and a model that was not trained with reference images ignores them silently. So
`auto` covers the classes whose models all edit in the same way, and reports the choices for the others. A
method that a class does not support is an error.
"""

from __future__ import annotations

from ...backend.errors import SettingsError
from ..inputs.model_traits import ModelTraits
from .encode_nodes import BY_MODEL

AUTO = "auto"
REFERENCE = "reference latents"
NOISE = "image to image"
KONTEXT = "flux kontext"
QWEN_EDIT = "qwen image edit"
QWEN_PLUS = "qwen image edit plus"
QWEN_2511 = "qwen image edit 2511"
OMNIGEN2 = "omnigen2"
Z_OMNI = "z-image omni"
ENCODE = "encode node"
EDIT_CHOICES = (AUTO, REFERENCE, NOISE, KONTEXT, QWEN_EDIT, QWEN_PLUS, QWEN_2511, OMNIGEN2, Z_OMNI, ENCODE)

ONLY_NOISE = frozenset(
    [
        "BaseModel",
        "SDXL",
        "SDXLRefiner",
        "SD3",
        "AuraFlow",
        "PixArt",
        "HunyuanDiT",
        "Chroma",
        "ChromaRadiance",
        "HunyuanImage21",
        "Kandinsky5Image",
        "Anima",
        "ErnieImage",
        "Ideogram4",
        "Lens",
        "PixelDiTT2I",
    ]
)
"""Model classes without reference latents ("BaseModel" is Stable Diffusion 1 and 2)."""
VIDEO = ("WAN", "LTX", "HunyuanVideo", "GenmoMochi", "CosmosVideo", "SVD_", "SV3D")
VIDEO_CLASSES = frozenset(("Kandinsky5",))
NO_PICTURES = (
    "StableAudio",
    "ACEStep",
    "Hunyuan3D",
    "StableCascade",
    "SD_X4Upscaler",
    "Lotus",
    "Stable_Zero123",
)
ONLY_FOR = {
    KONTEXT: ("Flux", "a FLUX.1 model"),
    QWEN_EDIT: ("QwenImage", "a Qwen-Image model"),
    QWEN_PLUS: ("QwenImage", "a Qwen-Image model"),
    QWEN_2511: ("QwenImage", "a Qwen-Image model"),
    OMNIGEN2: ("Omnigen2", "OmniGen2"),
    Z_OMNI: ("Lumina2", "a Z-Image or Lumina 2 model"),
}


EDITS_BY_NODE = frozenset(("JoyImage", "QwenImage21", "HiDreamO1"))
"""Model classes whose models all edit with the host's encode node."""
EDITS_OR_NOT = {
    "Boogu": "Boogu-Image-Edit",
    "LongCatImage": "LongCat-Image-Edit",
    "MageFlow": "Mage-Flow-Edit",
    "MingImage": "a Ming-Image that edits",
    "Krea2": "Krea 2 with a LoRA that reads reference images",
}
"""Names of the models that edit with the host's encode node, for classes with other models too."""


def edit_choice(model: ModelTraits, chosen: str) -> str:
    """Return the edit method for a model, one of EDIT_CHOICES except `auto`.

    Raises:
        SettingsError: The method does not fit the model, or `auto` cannot detect it.
    """
    check_draws_pictures(model)
    if chosen == AUTO:
        return _auto(model)
    only_for = ONLY_FOR.get(chosen)
    if only_for and model.name != only_for[0]:
        raise SettingsError(
            f"Edit method '{chosen}' is for {only_for[1]}, but the loaded model is {model.name}.",
            "Set 'edit' to 'auto', or load that model.",
        )
    if chosen == ENCODE and model.name not in BY_MODEL:
        raise SettingsError(
            f"The pack does not know an encode node for {model.name} models.",
            "Set 'edit' to 'auto', or put the model's own workflow between Attempt Start and Attempt End.",
        )
    if chosen == REFERENCE and model.name in ONLY_NOISE:
        raise SettingsError(
            f"{model.name} models do not support reference latents.",
            "Set 'edit' to 'auto' or 'image to image'.",
        )
    return chosen


def check_draws_pictures(model: ModelTraits) -> None:
    """Check that a model generates single images from text.

    Raises:
        SettingsError: It makes videos, sounds or shapes, or needs an input image.
    """
    if model.name.startswith(VIDEO) or model.name in VIDEO_CLASSES:
        raise SettingsError(
            f"{model.name} is a video model; the steps of a story are single images.",
            "Load an image model, or put the video model into your own graph between Attempt Start and "
            "Attempt End.",
        )
    if model.name.startswith(NO_PICTURES) or model.latent_dimensions == 1 or model.layered:
        raise SettingsError(
            f"{'Qwen-Image-Layered' if model.layered else model.name} cannot generate single images from "
            "text.",
            "Load an image model such as FLUX.2 klein, Qwen-Image-Edit or SDXL.",
        )


def _auto(model: ModelTraits) -> str:
    if model.is_flux2:
        return REFERENCE
    if model.name == "Omnigen2":
        return OMNIGEN2
    if model.name in EDITS_BY_NODE:
        return ENCODE
    if model.name in ONLY_NOISE:
        return NOISE
    if model.name == "Lumina2":
        return Z_OMNI if model.image_features else NOISE
    if model.name == "QwenImage" and model.timestep_zero:
        return QWEN_2511
    if model.name == "Flux" and not model.distilled_guidance:
        return NOISE  # schnell and Ovis; only Kontext and dev have a guidance input
    what = {
        "Flux": (
            "FLUX.1 Kontext and plain FLUX.1 cannot be distinguished by their weights.",
            f"Set 'edit' to '{KONTEXT}' for Kontext, to '{NOISE}' for FLUX.1 dev.",
        ),
        "QwenImage": (
            "The Qwen-Image models cannot be distinguished by their weights.",
            f"Set 'edit' to '{QWEN_PLUS}' for Qwen-Image-Edit-2509, "
            f"'{QWEN_2511}' for 2511, '{QWEN_EDIT}' for the first Qwen-Image-Edit, '{NOISE}' for Qwen-Image.",
        ),
        **{
            name: (
                f"{name} models that edit cannot be distinguished from others by their weights.",
                f"Set 'edit' to '{ENCODE}' for {edits}, otherwise to '{NOISE}'.",
            )
            for name, edits in EDITS_OR_NOT.items()
        },
    }.get(
        model.name,
        (
            f"The pack does not know how {model.name} models edit an image.",
            "Put the model's own workflow between Attempt Start and Attempt End. If the model edits with "
            f"reference latents or image to image, set 'edit' to '{REFERENCE}' or '{NOISE}'.",
        ),
    )
    raise SettingsError(*what)
