"""Prints the commands that convert a merged checkpoint to a GGUF agent.

The conversion is done by a script in the source of llama.cpp, which its packages do not include. The commands
are therefore printed and not run. Both files go into one folder, with the prompt set next to them, where
`llamacpp:FILE` and Load Agent look for it.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from ...backend.prompts import FOLDER_NAME
from ...backend.prompts.agent_card import CARD
from ...backend.prompts.trained_with import FILE

SCRIPT = "llama.cpp/convert_hf_to_gguf.py"


def conversion(checkpoint: Path) -> list[str]:
    """Return the lines that describe how to convert a checkpoint folder to a model and projector in GGUF."""
    name = checkpoint.name
    folder = checkpoint.parent / f"{name}-gguf"
    model, projector = folder / f"{name}-f16.gguf", folder / f"mmproj-{name}-f16.gguf"
    smaller = folder / f"{name}-q8_0.gguf"
    script = ["python", SCRIPT, str(checkpoint)]
    quantize = ["llama-quantize", str(model), str(smaller), "q8_0"]
    lines = [
        "To convert it to a GGUF agent, use the source of llama.cpp (https://github.com/ggml-org/llama.cpp)",
        "and install its requirements.txt:",
        f"  mkdir -p {shlex.quote(str(folder))}",
        f"  {shlex.join([*script, '--outtype', 'f16', '--outfile', str(model)])}",
        f"  {shlex.join([*script, '--mmproj', '--outfile', str(projector)])}",
        f"  {shlex.join(quantize)}   # optional: half the size",
    ]
    if (checkpoint / FOLDER_NAME).is_dir():
        lines.append(f"  {shlex.join(['cp', '-r', str(checkpoint / FOLDER_NAME), str(folder)])}")
    for name in (CARD, FILE):
        if (checkpoint / name).is_file():
            lines.append(f"  {shlex.join(['cp', str(checkpoint / name), str(folder)])}")
    named = shlex.join(["--critic", f"llamacpp:{model}"])
    return [*lines, f"Then use {named}, or put the folder into models/interleave_agents."]
