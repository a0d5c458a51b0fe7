"""How a merged checkpoint becomes an agent in GGUF.

Decision: the conversion is llama.cpp's, by its own program, which is part of its source and not of what is
installed with it; so what to run is said, and nothing is started. Both files go into one folder, with the
prompt set beside them, where `llamacpp:FILE` and Load Agent look for it.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from ...backend.prompts import FOLDER_NAME
from ...backend.prompts.trained_with import FILE

SCRIPT = "llama.cpp/convert_hf_to_gguf.py"


def conversion(checkpoint: Path) -> list[str]:
    """Lines that tell how llama.cpp makes a model and its projector of a checkpoint folder."""
    name = checkpoint.name
    folder = checkpoint.parent / f"{name}-gguf"
    model, projector = folder / f"{name}-f16.gguf", folder / f"mmproj-{name}-f16.gguf"
    smaller = folder / f"{name}-q8_0.gguf"
    script = ["python", SCRIPT, str(checkpoint)]
    quantize = ["llama-quantize", str(model), str(smaller), "q8_0"]
    lines = [
        "To make it an agent in GGUF, with llama.cpp's source (https://github.com/ggml-org/llama.cpp; its",
        "requirements.txt names what the program needs):",
        f"  mkdir -p {shlex.quote(str(folder))}",
        f"  {shlex.join([*script, '--outtype', 'f16', '--outfile', str(model)])}",
        f"  {shlex.join([*script, '--mmproj', '--outfile', str(projector)])}",
        f"  {shlex.join(quantize)}   # half the size, if you like",
    ]
    if (checkpoint / FOLDER_NAME).is_dir():
        lines.append(f"  {shlex.join(['cp', '-r', str(checkpoint / FOLDER_NAME), str(folder)])}")
    if (checkpoint / FILE).is_file():
        lines.append(f"  {shlex.join(['cp', str(checkpoint / FILE), str(folder)])}")
    named = shlex.join(["--critic", f"llamacpp:{model}"])
    return [*lines, f"Then: {named}, or the folder in models/interleave_agents."]
