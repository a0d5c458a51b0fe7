"""Scorers by name. To add one, write a module with an `open(argument)` function and add it to REGISTRY."""

from __future__ import annotations

from ..machine import plugins
from ..machine.registry import Registry, split_spec
from .about import ABOUT, About, stated
from .protocol import Scorer
from .specs import split_options

REGISTRY = {
    "tinyworld": "..tinyworld.runtime.scorer",
    "judge": ".scorers.judge",
    "judge-v1": ".scorers.judge:open_version_1",
    "editscore": ".scorers.reward_models:open_editscore",
    "unifiedreward": ".scorers.reward_models:open_unifiedreward",
    "rationalrewards": ".scorers.rational",
    "similarity": ".scorers.local.similarity",
    "lettering": ".scorers.local.lettering",
    "pairwise": ".scorers.pairwise",
    "mean": ".scorers.combined:open_mean",
    "min": ".scorers.combined:open_min",
    "repeat": ".scorers.combined:open_repeat",
}
SCORERS = Registry("scorer", REGISTRY, __name__.removesuffix(".scorers"), plugins.SCORERS)

__all__ = ["REGISTRY", "SCORERS", "About", "Scorer", "about_scorer", "open_scorer"]


def open_scorer(spec: str, **options: object) -> Scorer:
    """Open a scorer by name, built in or from an installed plug-in.

    Args:
        spec: `NAME`, `NAME:ARGUMENT` or `NAME[OPTION=VALUE,...]:ARGUMENT`, such as `judge:CHAT-SPEC`.
        **options: Options of the backend, such as `device`. None leaves an option at its default. Options in
            the spec replace them.

    Raises:
        SettingsError: The name is unknown, its module cannot be imported, or an option is not supported.
    """
    plain, own = split_options(spec)
    return SCORERS.open(plain, **{**options, **own})


def about_scorer(spec: str) -> About:
    """Return license, memory and range of a scorer, without opening it.

    Raises:
        SettingsError: The name is unknown, or its module cannot be imported.
    """
    name, _ = split_spec(split_options(spec)[0])
    return ABOUT[name] if name in ABOUT else stated(getattr(SCORERS.load_module(name), "ABOUT", None), name)
