"""Which engine settings one agent uses on this machine, and which its check at first use switched off, with
the reason.

Decision: this is the one part of `doctor` that loads something, because only a comparison with the weights,
on the device where they are, can tell.
"""

from __future__ import annotations

import json

from ...backend.errors import SettingsError
from ..progress import Lines


def show_agent(spec: str, as_json: bool) -> None:
    """Open the agent, have it checked and print what came of it. Raises SettingsError, ChatError."""
    from ...backend.chat import open_chat
    from ...backend.chat.local.chat import TransformersChat

    chat = open_chat(f"{spec}:critic" if spec == "tinyworld" else spec)
    if not isinstance(chat, TransformersChat):
        raise SettingsError(f"{spec!r} does not decode in this process.", "Name transformers:FOLDER.")
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
        said = f"switched off: {reason}" if reason else "on" if value is True else value or "off"
        view.say(f"  {name}: {said}", "yellow" if reason else "")
