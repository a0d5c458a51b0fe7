"""Mutated rows and guard files, as a stranger's folder may contain them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random

NASTY = (
    b"\x00",
    b"\xff\xfe",
    b"!!python/object/apply:os.system ['touch pwned']",
    b"&a [*a, *a]",
    b"*a",
    b"{",
    b"}",
    b"[" * 2000,
    b"{" * 2000,
    b"../../outside",
    b"/etc/passwd",
    b"\xe2\x80\xae",
    b"\x1b]0;title\x07",
    b": : :",
    b"- - -",
    b"? [complex, key]\n: 1",
    b"{a missing_bank}",
    b"{animal +no_such_tag}",
    b"{animal?plural:are}",
    b"[one|[two|three]]",
    b"9" * 400,
    b"1e999",
    b"null",
    b"\n\t",
    "é́\U0001f600".encode(),
    b"A" * 70_000,
    b"<<: *x",
    b"%YAML 9.9",
    b"--- \n--- \n",
    b'"' * 9,
)
ROWS = b"".join(
    json.dumps(row).encode() + b"\n"
    for row in (
        {"id": "a", "user_input": "Show how a mill grinds flour between two stones in an old village."},
        {"messages": [{"role": "user", "content": "x"}], "images": ["../../../etc/passwd", "a.png"]},
        {"data_id": "d1", "title": "t", "step_info": [[{"type": "text", "content": "c"}]]},
    )
)
FILES = ("rows.jsonl", "rows.json", "guard.sqlite")


def prepare(folder: Path) -> None:
    """Create a folder in which every file is valid."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.jsonl").write_bytes(ROWS)
    rows = [json.loads(line) for line in ROWS.splitlines()]
    (folder / "rows.json").write_text(json.dumps(rows), encoding="utf-8")


def mutated(content: bytes, random: Random) -> bytes:
    """Return the content with one to three faults."""
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(content) + 1)
        ways: tuple[Callable[[], bytes], ...] = (
            lambda at=at, content=content: content[:at] + random.choice(NASTY) + content[at:],
            lambda at=at, content=content: content[:at],
            lambda at=at, content=content: content[:at] + content[at + random.randint(1, 30) :],
            lambda at=at, content=content: content[:at] + bytes([random.randrange(256)]) + content[at + 1 :],
            lambda at=at, content=content: content[:at] + content[: random.randint(1, 200)] + content[at:],
        )
        content = random.choice(ways)()
    return content


def endless_view(path: Path) -> None:
    """Write a database whose table is an endless program."""
    database = sqlite3.connect(path)
    database.executescript(
        "CREATE TABLE about (name, value); INSERT INTO about VALUES ('format', '1');"
        "CREATE VIEW sources AS WITH RECURSIVE c(x) AS "
        "(SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c;"
    )
    database.close()
