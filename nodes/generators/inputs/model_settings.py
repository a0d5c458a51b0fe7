"""Sampling settings that the makers of image models recommend, as the Step Generator's menu offers them.

They travel with the node's definition, so the browser needs neither a file nor a route. A sampler or
scheduler that this host lacks leaves its row out.
"""

from __future__ import annotations

from typing import Any

from ... import host
from ...sampling.families.family import Family, Recommended
from ...sampling.families.registry import FAMILIES
from ...sampling.settings import FLUX2

MODEL_SETTINGS = "interleave_model_settings"
"""Key in the definition of the widget `edit`; the browser reads it (web/model_settings.js)."""


def model_settings() -> dict[str, Any]:
    """Return the addition to a widget's definition: a name and the values of widgets for every model."""
    samplers, schedulers = set(host.samplers()), {FLUX2, *host.schedulers()}
    rows = [
        _row(family, one)
        for family in FAMILIES
        if family.method is not None
        for one in family.recommended
        if one.sampler in samplers and one.scheduler in schedulers
    ]
    return {MODEL_SETTINGS: rows}


def _row(family: Family, one: Recommended) -> dict[str, Any]:
    name = f"{family.name}: {one.variant}" if one.variant else family.name
    values = {"steps": one.steps, "cfg": one.cfg, "sampler": one.sampler, "scheduler": one.scheduler}
    return {"name": name, "values": {**values, "edit": family.method}}
