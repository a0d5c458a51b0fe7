"""Each model family, as its module describes it: these tests are generated from the registry."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.nodes.inputs.named_models import ModelTraits
from interleave_thinker.nodes.sampling.families.family import (
    AUTO,
    NOISE,
    SHARED_METHODS,
    Family,
    with_image_numbers,
)
from interleave_thinker.nodes.sampling.families.registry import (
    EDIT_CHOICES,
    FAMILIES,
    FIRST_CHOICES,
    FURTHER_CHOICES,
    chosen_family,
    edit_choice,
    families_of,
    text_row,
)

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").is_file())
DOCUMENTED = json.loads((ROOT / "docs" / "reference_pages" / "model_families.json").read_text("utf-8"))
NOT_RUN = {"read", "no comparison", "image to image", "-"}
"""Results that need no run of the family."""
OWN_MODES = {"krea 2 identity edit"}
"""Methods of one family with a class of their own in edit_modes.py."""
FOLDERS = "checkpoints|diffusion_models|loras|text_encoders|vae"

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def detected(family: Family, model: str) -> ModelTraits:
    """Return traits of a model of this family: those that make it certain, where there are such."""
    possible = [
        ModelTraits(model, distilled_guidance=guided, image_features=features, timestep_zero=zero)
        for guided in (False, True)
        for features in (False, True)
        for zero in (False, True)
    ]
    certain = family.certain or (lambda traits: True)
    return next(traits for traits in possible if certain(traits))


def test_saved_choices_stay() -> None:
    old = "auto,reference latents,image to image,flux kontext,qwen image edit,qwen image edit plus"
    old += ",qwen image edit 2511,omnigen2,z-image omni,encode node"
    assert ",".join(EDIT_CHOICES[:10]) == old and EDIT_CHOICES[:10] == FIRST_CHOICES
    assert len(set(EDIT_CHOICES)) == len(EDIT_CHOICES)


def test_a_family_is_one_entry_and_no_other_line() -> None:
    texts = {
        path: path.read_text("utf-8")
        for folder in ("nodes", "locales", "web")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".json", ".js", ".md") and path.name != "known_families.py"
    }
    for method in set(FURTHER_CHOICES) - OWN_MODES:
        named = [str(path.relative_to(ROOT)) for path, text in texts.items() if f'"{method}"' in text]
        assert not named, f"{method!r} is named in {named}"


@every_family
def test_its_facts_are_whole(family: Family) -> None:
    assert [one.name for one in FAMILIES].count(family.name) == 1
    assert family.method is None or family.method in EDIT_CHOICES
    assert family.method is not None or not family.models
    assert family.row is None or family.method not in (None, NOISE)
    assert all(one.steps > 0 and one.cfg >= 1 for one in family.recommended)
    assert 1 <= family.most_images <= 16
    for source, paths in DOCUMENTED[family.name].get("files", {}).items():
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", source), source
        assert all(re.fullmatch(rf"({FOLDERS})/[\w.-]+\.safetensors", path) for path in paths), paths


@every_family
def test_what_was_compared_was_run(family: Family) -> None:
    known = DOCUMENTED[family.name]
    checks, was_run = set(known["compared"]), bool(known.get("ran_in"))
    assert ("read" in checks) <= (checks <= NOT_RUN and not was_run)
    assert (checks <= NOT_RUN) or was_run
    assert (family.most_images == 1) <= (known["compared"][2] == "-")


@every_family
def test_its_method_is_accepted_for_its_models(family: Family) -> None:
    for model in (*(family.models or ("NotKnownHere",)), *family.may_be) if family.method else ():
        assert edit_choice(ModelTraits(model), family.method or "") == family.method
        found = chosen_family(model, family.method or "")
        assert found is not None and (found.row, found.method) == (family.row, family.method)


@every_family
def test_auto_finds_it_or_names_its_choice(family: Family) -> None:
    for model in family.models if family.guess else ():
        traits = detected(family, model)
        if family.certain is not None or len({one.method for one in families_of(model)}) == 1:
            assert edit_choice(traits, AUTO) == family.method
            continue
        with pytest.raises(SettingsError) as error:
            edit_choice(ModelTraits(model, distilled_guidance=True), AUTO)
        hint = error.value.hint or ""
        assert f"'{family.method}' for {family.short or family.name}" in f"{hint}", hint


@every_family
def test_its_own_method_is_rejected_for_a_model_of_another_family(family: Family) -> None:
    if family.method in (None, *SHARED_METHODS):
        pytest.skip("Other families have this method too, or none has.")
    other = next(
        one.models[0]
        for one in FAMILIES
        if one.guess and one.models and one.models[0] not in family.models and one.method != family.method
    )
    with pytest.raises(SettingsError, match=f"is for {re.escape(family.models_name)}, but the loaded model"):
        edit_choice(ModelTraits(other), family.method or "")


@every_family
def test_a_prompt_names_images_as_it_was_trained(family: Family) -> None:
    row = family.row
    if row is None or row.mark is None:
        pytest.skip("It has no notation.")
    most = family.most_images
    prompt = f"the hat of image 1 on picture {most}, not of image {most + 1}"
    first, last = (row.mark.format(number - 1 + row.first_mark) for number in (1, most))
    written = with_image_numbers(prompt, row.mark, most, row.first_mark)
    assert written == f"the hat of {first} on {last}, not of image {most + 1}"


@every_family
def test_a_text_to_image_workflow_with_its_node_uses_it(family: Family) -> None:
    row = family.row
    for model in family.models if row is not None else ():
        assert text_row(model) == (row if row is not None and row.draws_text else None)


@pytest.mark.parametrize("model", ["WAN21", "MiniMaxH3"])
@pytest.mark.parametrize("chosen", ["auto", "image to image", "fibo 2"])
def test_video_models_are_told_apart_from_image_models(model: str, chosen: str) -> None:
    with pytest.raises(SettingsError, match="video model") as error:
        edit_choice(ModelTraits(model), chosen)
    name = {"WAN21": "bernini-r", "MiniMaxH3": "minimax h3 image"}[model]
    assert f"set 'edit' to '{name}'" in (error.value.hint or "")
    assert edit_choice(ModelTraits(model), name) == name
    with pytest.raises(SettingsError, match="video model"):
        edit_choice(ModelTraits("WAN22"), name)
