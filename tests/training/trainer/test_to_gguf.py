"""The commands of `train merge --to gguf` are valid in a shell, and their files are found by agents."""

from __future__ import annotations

import shlex
from pathlib import Path

from interleave_thinker.backend.chat.llamacpp.gguf_files import find_gguf
from interleave_thinker.backend.prompts import default_prompt_set
from interleave_thinker.training.trainer.to_gguf import conversion


def test_the_two_gguf_files_form_one_agent(tmp_path: Path) -> None:
    checkpoint = tmp_path / "my critic's"
    checkpoint.mkdir()
    default_prompt_set().save(checkpoint / "prompt_set")
    lines = conversion(checkpoint)
    commands = [shlex.split(line, comments=True) for line in lines if line.startswith("  ")]
    (folder,) = (Path(command[-1]) for command in commands if command[0] == "mkdir")
    converted = [command for command in commands if command[0] == "python"]
    assert [command[2] for command in converted] == [str(checkpoint)] * 2
    assert ["--mmproj" in command for command in converted] == [False, True]
    folder.mkdir()
    made = [Path(command[command.index("--outfile") + 1]) for command in converted]
    for path in made:
        path.write_bytes(b"GGUF" + bytes([3, 0, 0, 0, 1, 0, 0, 0]) + bytes(12))
    agent = find_gguf(str(made[0]))
    assert (agent.model, agent.projector) == (made[0].resolve(), made[1].resolve())
    copied = next(command for command in commands if command[0] == "cp")
    assert copied[1:] == ["-r", str(checkpoint / "prompt_set"), str(folder)]
    assert f"llamacpp:{made[0]}" in shlex.split(lines[-1].removeprefix("Then: ").split(", or")[0])
