"""`doctor --agent`: shows which engine settings an agent uses here, and why others are switched off.

This is the only part of `doctor` that loads a model, because the check compares results of the weights on
their device.
"""

from __future__ import annotations

import json

from ...backend.errors import SettingsError
from ..progress import Lines


def show_agent(spec: str, as_json: bool) -> None:
    """Load an agent, check its engine settings and print the result.

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
    with base.lock:
        base.engine()
    report = {
        "agent": spec,
        "identity": chat.identity,
        "device": str(base.model.device),
        "engine": base.settings.engine.model_dump(),
        "switched_off": base.switched_off,
    }
    if as_json:
        print(json.dumps(report))
        return
    view = Lines()
    view.say(f"{spec} on {report['device']}, {base.settings.quantization or base.dtype}", "bold")
    for name, value in base.settings.engine.model_dump().items():
        reason = base.switched_off.get(name)
        state = f"switched off: {reason}" if reason else "on" if value is True else value or "off"
        view.say(f"  {name}: {state}", "yellow" if reason else "")
