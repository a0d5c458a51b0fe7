"""Registry of the model families, and the edit method of a loaded model.

The host has no flag for the method, and a model that was not trained with reference images ignores them
silently. So `auto` covers the classes whose models all edit in the same way, and reports the choices for the
others. A method that a class does not support is an error.
"""

from __future__ import annotations

from ....backend.core.errors import SettingsError
from ...inputs.named_models import ModelTraits
from .family import AUTO, ENCODE, NOISE, REFERENCE, SHARED_METHODS, EncodeNode, Family
from .known_families import FAMILIES

FIRST_CHOICES = (
    AUTO,
    REFERENCE,
    NOISE,
    "flux kontext",
    "qwen image edit",
    "qwen image edit plus",
    "qwen image edit 2511",
    "omnigen2",
    "z-image omni",
    ENCODE,
)
"""Choices that are first in the list, in the order that they were added. They have translated labels."""
FURTHER_CHOICES = tuple(
    sorted({one.method for one in FAMILIES if one.method is not None} - {*FIRST_CHOICES, *SHARED_METHODS})
)
"""Choices that are names of families, after FIRST_CHOICES."""
EDIT_CHOICES = (*FIRST_CHOICES, *FURTHER_CHOICES)
"""Choices for the edit method."""


def families_of(model: str) -> tuple[Family, ...]:
    """Return the families of a host's model class that the pack can generate with."""
    return tuple(one for one in FAMILIES if model in one.models and one.method is not None)


def with_method(method: str) -> tuple[Family, ...]:
    """Return the families with this edit method."""
    return tuple(one for one in FAMILIES if one.method == method)


def chosen_family(model: str, method: str) -> Family | None:
    """Return the family of a model class with this edit method, `None` for a method of no family."""
    found = [one for one in with_method(method) if model in one.models]
    if not found and method in FURTHER_CHOICES:
        found = [*with_method(method)]  # its class could not be read
    return found[0] if found else None


def text_row(model: str) -> EncodeNode | None:
    """Return the encode node for prompts without images of this class, `None` for CLIP Text Encode."""
    rows = [one.row for one in families_of(model) if one.row is not None and one.row.draws_text]
    return rows[0] if rows else None


VIDEO = ("WAN", "LTX", "HunyuanVideo", "GenmoMochi", "CosmosVideo", "SVD_", "SV3D")
VIDEO_CLASSES = frozenset(("Kandinsky5", "MiniMaxH3", "CogVideoX"))
"""Exact names, since image models of the same maker begin with them."""
NO_PICTURES = (
    "StableAudio",
    "ACEStep",
    "Hunyuan3D",
    "StableCascade",
    "SD_X4Upscaler",
    "Lotus",
    "Stable_Zero123",
)


def edit_choice(model: ModelTraits, chosen: str) -> str:
    """Return the edit method for a model, one of EDIT_CHOICES except `auto`.

    Raises:
        SettingsError: The method does not fit the model, or `auto` cannot detect it.
    """
    if not any(one.method == chosen for one in _images_by(model.name)):
        check_draws_pictures(model)
    if chosen == AUTO:
        return _auto(model)
    _check_family(model, chosen)
    if chosen == ENCODE and chosen_family(model.name, ENCODE) is None:
        raise SettingsError(
            f"The pack does not know an encode node for {model.name} models.",
            "Set 'edit' to 'auto', or put the model's own workflow between Attempt Start and Attempt End.",
        )
    families = families_of(model.name)
    if chosen == REFERENCE and families and all(one.method == NOISE for one in families):
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
            "Attempt End."
            + "".join(f" For {one.name}, set 'edit' to '{one.method}'." for one in _images_by(model.name)),
        )
    if model.name.startswith(NO_PICTURES) or model.latent_dimensions == 1 or model.layered:
        raise SettingsError(
            f"{'Qwen-Image-Layered' if model.layered else model.name} cannot generate single images from "
            "text.",
            "Load an image model such as FLUX.2 klein, Qwen-Image-Edit or SDXL.",
        )


def _images_by(model: str) -> list[Family]:
    """Return the families of single images whose models may have this class of video models."""
    return [one for one in FAMILIES if model in one.may_be or (model in one.models and not one.guess)]


def _check_family(model: ModelTraits, chosen: str) -> None:
    families = () if chosen in SHARED_METHODS else with_method(chosen)
    # The class of some families is not known. Such a model is at least of no class of another family.
    unknown = not families_of(model.name)
    if families and not any(model.name in one.models or (unknown and not one.models) for one in families):
        raise SettingsError(
            f"Edit method '{chosen}' is for {families[0].models_name}, but the loaded model is {model.name}.",
            "Set 'edit' to 'auto', or load that model.",
        )


def _auto(model: ModelTraits) -> str:
    families = [one for one in families_of(model.name) if one.guess]
    certain = [one for one in families if one.certain is not None and one.certain(model)]
    methods = {str(one.method) for one in certain or families}
    if len(methods) == 1:
        return methods.pop()
    if not families:
        named = ", ".join(
            f"'{choice}' for {with_method(choice)[0].models_name}"
            for choice in FURTHER_CHOICES
            if not with_method(choice)[0].models
        )
        raise SettingsError(
            f"The pack does not know how {model.name} models edit an image.",
            "Put the model's own workflow between Attempt Start and Attempt End. If the model edits with "
            f"reference latents or image to image, set 'edit' to '{REFERENCE}' or '{NOISE}'. "
            f"Some families are chosen by name: {named}.",
        )
    raise SettingsError(
        f"{model.name} models that edit cannot be distinguished from others by their weights.",
        f"Set 'edit' to {_choices(families)}.",
    )


def _choices(families: list[Family]) -> str:
    """Return the choices for models of a class, those that edit first."""
    ordered = sorted(families, key=lambda one: one.method == NOISE)
    # A family that one of its traits makes certain is not one of those that have to be chosen.
    shown = [one for one in ordered if one.method != NOISE or one.certain is None]
    return ", ".join(f"'{one.method}' for {one.short or one.name}" for one in shown)
