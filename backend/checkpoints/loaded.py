"""Reads the weights of a checkpoint folder by transformers: all of them, or an error.

Reason: the library fills weights that a file lacks at random and goes on. Agents, merging and training all
read models here, so none of them takes a checkpoint for whole that is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import ChatError, boundary

LOCAL: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


def load_whole(folder: Path, **options: Any) -> Any:
    """Load the model of a folder that `check_checkpoint` has accepted.

    Args:
        folder: The checkpoint.
        options: Passed on to `from_pretrained`, such as `dtype`.

    Returns:
        The library's model.

    Raises:
        ChatError: The folder lacks weights, has some of other sizes, or cannot be read.
    """
    from transformers import AutoModelForImageTextToText

    with boundary(ChatError, f"Checkpoint {str(folder)!r}"), _without_progress_bars():
        loaded: Any = AutoModelForImageTextToText.from_pretrained(
            str(folder), use_safetensors=True, output_loading_info=True, **LOCAL, **options
        )
        model, loading = loaded
    missing = sorted(loading.get("missing_keys") or ())
    if missing:
        raise ChatError(
            f"Checkpoint {str(folder)!r} lacks {len(missing)} weights, such as {missing[0]!r}.",
            "Get the folder again, or export it again from the program that made it.",
        )
    return model


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Without the library's bars on the screen, where our own progress is shown."""
    from transformers.utils import logging as library

    shown = library.is_progress_bar_enabled()
    library.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            library.enable_progress_bar()
