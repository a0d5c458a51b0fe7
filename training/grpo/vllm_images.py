"""Disables the cache of processed images in a vLLM that sleeps between rollouts.

vLLM has two such caches: one of the process that sends a prompt, one of the engine. Sleep clears that of the
engine. In versions that do not clear the other one, the next prompt with a known image is sent without it:
vLLM fails (vllm-project/vllm issue 42995, fixed by pull request 43001), or scores are wrong without a message
(Tencent-Hunyuan/UniRL pull request 348, which also sets the cache to 0). trl 1.16 has no argument for it, so
the class that trl calls is replaced while the trainer is created.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from .settings import GrpoTraining

CACHE_GB = 0


@contextmanager
def without_image_cache(settings: GrpoTraining, log: Callable[[str], None]) -> Iterator[None]:
    """Start a colocated vLLM of trl without a cache of processed images, inside the `with` block."""
    if not settings.use_vllm or settings.vllm_mode != "colocate":
        yield
        return
    from trl.generation import vllm_generation as trl_engine

    # Without vLLM, trl's module does not have this name.
    module: Any = trl_engine
    engine = getattr(module, "LLM", None)
    if engine is None:
        log(
            "WARNING: this version of trl starts vLLM in another place, so its cache of processed images "
            "stays enabled. Images may be missing from prompts unless vLLM clears that cache when it sleeps."
        )
        yield
        return
    module.LLM = partial(engine, mm_processor_cache_gb=CACHE_GB)
    try:
        yield
    finally:
        module.LLM = engine
