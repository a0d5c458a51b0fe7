"""Hostile files, and everything that reads files, called like a user calls it.

`KINDS` replace a file by something hostile. `READERS` define where the file is in a folder made by
`prepare`, and the command line that reads it. A case combines one kind with one reader.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interleave_thinker import Critic, Picture, Plan, Request, RunSettings, Step, Verdict, open_generator
from interleave_thinker.backend.core.answers.reading import write_verdict
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.output.feedback_log import Feedback, record_feedback
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.tinyworld import checkpoint

MILLION = 1_000_000
STORY = "Draw a sea page with a red boat in the middle."


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _socket(path: Path) -> None:
    # The path of a socket has at most 107 bytes.
    here, one = os.getcwd(), socket.socket(socket.AF_UNIX)
    os.chdir(path.parent)
    try:
        one.bind(path.name)
    finally:
        os.chdir(here)
        one.close()


def _holes(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _duplicate(path: Path) -> None:
    path.write_text(
        '{"a": 1, "a": 2, "version": 1, "version": 2, "model_type": "qwen3_vl", "model_type": "x"}'
    )


def _png(path: Path) -> None:
    """Write a PNG of 60,000 x 60,000 pixels in some kilobytes."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 6, 0, 0, 0)
    body = zlib.compress(bytes(1000))
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    )


def _written(data: bytes | str) -> Callable[[Path], None]:
    return lambda path: void(path.write_bytes(data.encode() if isinstance(data, str) else data))


def void(_: object) -> None:
    """Do nothing."""


KINDS: dict[str, Callable[[Path], None]] = {
    "pipe": _pipe,
    "endless device": _device,
    "socket": _socket,
    "folder": lambda path: path.mkdir(),
    "1 TB of holes": _holes,
    "link to itself": _loop,
    "empty": _written(b""),
    "noise": _written(bytes(range(256)) * 4000),
    "16-bit text": _written("[1]".encode("utf-16")),
    "nested 100,000 deep": _written("[" * 100_000),
    "nested objects": _written('{"a":' * 50_000 + "1" + "}" * 50_000),
    "6 MB of {}": _written("[" + "{}," * (2 * MILLION) + "{}]"),
    "18 MB of {}": _written("[" + "{}," * (6 * MILLION) + "{}]"),
    "an object of a million keys": _written("{" + ",".join(f'"{n}":0' for n in range(MILLION)) + "}"),
    "a number of a million digits": _written('{"version": ' + "9" * MILLION + "}"),
    "a text of 60 MB": _written('["' + "a" * (60 * MILLION) + '"]'),
    "a key twice": _duplicate,
    "escapes for a terminal": _written("\x1b]0;title\x07\x1b[2J\u202e: [\x00\x9b"),
    "a picture of 3.6 gigapixels": _png,
}


@dataclass(frozen=True)
class Reader:
    """Location of a file, and the command line (`{at}`: the folder) that reads it.

    `heavy` readers load a model library.
    """

    file: str
    command: tuple[str, ...]
    without: tuple[str, ...] = ()
    heavy: bool = False
    harmless: tuple[str, ...] = ()
    """Kinds that are a valid file there."""


RUN = ("export", "{at}/run", "--to", "markdown", "--out", "{at}/out")
ROWS = ("data", "from-runs", "{at}/run", "--out", "{at}/out")
CRITIC = (*ROWS, "--model", "{at}/agent")
DRAWN = ("--critic", "none", "--generator", "fake", "--out", "{at}/out")
SFT = ("train", "critic-sft", "--model", "{at}/agent", "--out", "{at}/out", "--data")
RL = ("train", "critic-grpo", "--model", "{at}/agent", "--out", "{at}/out", "--data")

TEXTS = ("empty", "nested 100,000 deep", "a key twice", "escapes for a terminal")
READERS: dict[str, Reader] = {
    "judge IMAGE": Reader("a.png", ("judge", "{at}/b.png", "{at}/a.png", "a boat")),
    "run --image": Reader("a.png", ("run", STORY, "--image", "{at}/a.png", *DRAWN)),
    "run --plan": Reader("plan.json", ("run", STORY, "--plan", "{at}/plan.json", *DRAWN)),
    "scripted:FILE": Reader("replies.json", ("plan", STORY, "--planner", "scripted:{at}/replies.json")),
    "run.json": Reader("run/run.json", RUN),
    "plan.json": Reader("run/plan.json", RUN, ("run/trajectory.json",)),
    "trajectory.json": Reader("run/trajectory.json", RUN),
    "attempts": Reader("run/attempts/ATTEMPT", RUN, ("run/trajectory.json",)),
    "verdicts": Reader("run/verdicts/VERDICT", RUN, ("run/trajectory.json",)),
    "pictures": Reader("run/pictures/PICTURE", RUN),
    "feedback.jsonl": Reader("run/feedback.jsonl", ROWS, harmless=("empty",)),
    "prompts import": Reader("system.py", ("prompts", "import", "{at}/system.py", "--to", "{at}/agent")),
    "prompt set": Reader("agent/prompt_set/critic.txt", CRITIC, harmless=TEXTS),
    "agent's config.json": Reader("agent/config.json", CRITIC),
    "agent's weights": Reader("agent/model.safetensors", CRITIC),
    "recipe": Reader("recipe.yaml", ("train", "doctor", "--config", "{at}/recipe.yaml")),
    "doctor --plan": Reader("pipeline/model_index.json", ("doctor", "--plan", "{at}/pipeline")),
    "rows of SFT": Reader("rows.json", (*SFT, "{at}/rows.json"), heavy=True),
    "image of a row": Reader("images/a.png", (*SFT, "{at}/rows.json"), heavy=True),
    "rows of RL": Reader("rows.jsonl", (*RL, "{at}/rows.jsonl", "--generator", "tinyworld", "--scorer", "tinyworld"), heavy=True),
    "agent's tokenizer": Reader(
        "agent/tokenizer.json", ("plan", STORY, "--planner", "transformers:{at}/agent"), heavy=True
    ),
    "pipeline's config.json": Reader(
        "pipeline/transformer/config.json",
        ("run", STORY, "--generator", "tinyworld:{at}/pipeline", "--plan", "{at}/plan.json", "--critic", "none", "--out", "{at}/out"),
        heavy=True,
    ),
}  # fmt: skip


def prepare(at: Path) -> None:
    """Create a folder in which every reader finds a valid file."""
    replies = [
        write_verdict(Verdict(success=success, refined_prompt="a dark page")) for success in (False, True)
    ]
    told = run(
        Request(text="a page"),
        Collaborators(None, open_generator("fake"), Critic(ScriptedChat(replies))),
        RunSettings(max_attempts=2),
        Journal(at / "run"),
        Plan(steps=(Step(number=1, prompt="a page"),)),
    )
    assert len(list(told)) > 3
    record_feedback(at / "run", Feedback(step=1, attempt=0, accepted=False, better_prompt="a dark page"))
    for name in ("a.png", "b.png", "images/a.png"):
        (at / name).parent.mkdir(exist_ok=True)
        (at / name).write_bytes(Picture.white((48, 48)).png())
    shutil.copytree(checkpoint("critic"), at / "agent")
    shutil.copytree(checkpoint("generator"), at / "pipeline")
    default_prompt_set().save(at / "agent" / "prompt_set")
    turns = [{"role": "user", "content": "<image> right?"}, {"role": "assistant", "content": "yes"}]
    _json(at / "rows.json", [{"messages": turns, "images": ["images/a.png"]}])
    judged = {"success": True, "semantics": 9, "quality": 9}
    _json(
        at / "rows.jsonl",
        {"origin_prompt": "a boat", "edited_image_path": "images/a.png", "evaluation": judged},
    )
    _json(at / "plan.json", {"steps": [{"number": 1, "prompt": "a boat"}]})
    _json(at / "replies.json", ["{}"])
    (at / "recipe.yaml").write_text("model: none\n")
    (at / "system.py").write_text("")


def put(at: Path, reader: Reader, kind: str) -> list[str]:
    """Put the hostile file into a prepared folder, and return the command line that reads it."""
    folder, _, name = reader.file.rpartition("/")
    if name.isupper():
        name = min(path.name for path in (at / folder).iterdir())
    for path in (f"{folder}/{name}" if folder else name, *reader.without):
        (at / path).unlink()
    KINDS[kind](at / folder / name)
    return [part.replace("{at}", str(at)) for part in reader.command]


def _json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))
