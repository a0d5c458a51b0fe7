"""Parts of `doctor` about agents: what their cards say, and what a loaded agent uses here.

`doctor --agent` is the only part of `doctor` that loads a model.
"""

from __future__ import annotations

import json
from pathlib import Path

from ...backend.errors import SettingsError
from ...backend.prompts.trained_with import trained_with
from ..progress import Lines


def show_agent(spec: str, as_json: bool) -> None:
    """Load an agent, and print its device, training and settings.

    Raises:
        SettingsError: The agent does not run in this process.
        ChatError: The agent cannot be loaded.
    """
    from ...backend.chat import open_chat
    from ...backend.chat.local.chat import TransformersChat

    chat = open_chat(f"{spec}:critic" if spec == "tinyworld" else spec)
    if not isinstance(chat, TransformersChat):
        raise SettingsError(f"The agent {spec!r} does not run in this process.", "Use transformers:FOLDER.")
    base = chat.base
    base.restore()
    trained = chat.trained
    report = {
        "agent": spec,
        "trained": trained.described,
        "warning": trained.warning,
        "identity": chat.identity,
        "device": str(base.model.device),
        "engine": base.settings.engine.model_dump(),
    }
    if as_json:
        print(json.dumps(report))
        return
    view = Lines()
    view.say(f"{spec} on {report['device']}, {base.settings.quantization or base.dtype}", "bold")
    if trained.described:
        view.say(f"  {trained.described}")
    if trained.warning:
        view.say(f"  {trained.warning}", "yellow")
    for name, value in base.settings.engine.model_dump().items():
        view.say(f"  {name}: {'on' if value is True else value or 'off'}")


def cards_of(models: dict[str, list[Path]]) -> tuple[dict[str, str], list[str]]:
    """Return what the models' agent cards say, by path, and warnings about prompt sets and damaged cards."""
    cards: dict[str, str] = {}
    warnings: list[str] = []
    for path in (path for found in models.values() for path in found):
        folder = max(path.glob("snapshots/*"), key=lambda one: one.stat().st_mtime, default=path)
        try:
            trained = trained_with(folder, adapter=(folder / "adapter_config.json").is_file())
        except SettingsError as error:
            warnings.append(str(error))
            continue
        if trained.described:
            cards[str(path)] = trained.described
        if trained.warning:
            warnings.append(trained.warning)
    return cards, warnings
