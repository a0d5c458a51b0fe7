"""Hostile requests to the pack's routes: every field with bad values, and bodies that are not objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from .hostile_inputs import HALF, INFINITE, LONG, MARK, NAN

VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 10**30, -(10**30), 1.5, NAN, INFINITE, "", " ", "word", ".", "..", f"../{MARK}", f"/tmp/{MARK}",
    f"..\\{MARK}", "a\0b", "\x1b[31m", HALF, LONG, [], [[]], ["a"], {}, {"a": {"a": {}}},
)  # fmt: skip
BODIES: tuple[bytes, ...] = (
    b"", b"null", b"5", b'"a"', b"[]", b"{", b"\xff\xfe", b"\0" * 1000, b"[" * 100_000, b'{"a":' * 50_000, b"NaN",
    b'{"run": "a", "run": "b"}', b"{}" + b" " * 300_000, b'{"unknown": 1}',
)  # fmt: skip

MEMBER = {"name": "Mia", "kind": "prop", "traits": ["red"], "images": ["a.png"]}


@dataclass(frozen=True)
class Asked:
    """One request: a query for GET, a body for POST."""

    name: str
    method: str
    path: str
    body: bytes = b""
    query: dict[str, str] | None = None


def requests(run: str, picture: str) -> Iterator[Asked]:
    """Requests about a run that is there, each wrong in one place or not at all a request."""
    feedback = {
        "step": 1,
        "attempt": 0,
        "accepted": True,
        "better_prompt": "b",
        "note": "n",
        "image": picture,
    }
    whole: dict[str, dict[str, Any]] = {
        "choice": {"run": run, "step": 1, "picture": picture},
        "feedback": {"run": run, "feedback": feedback},
        "decision": {"run": run, "step": 1, "digest": picture, "skip": False},
        "plan": {"text": "1. a", "cast": [MEMBER]},
    }
    for route, body in whole.items():
        path = f"/interleave-thinker/{route}"
        yield from (Asked(f"{route} {one[:30]!r}", "POST", path, one) for one in BODIES)
        for name in body:
            for value in VALUES:
                yield Asked(f"{route}.{name} = {value!r:.30}", "POST", path, encoded({**body, name: value}))
    parts: list[tuple[str, str, str, dict[str, Any]]]
    parts = [("feedback", "feedback", name, {"run": run, "feedback": feedback}) for name in feedback]
    parts += [("plan", "cast", name, {"text": "1. a", "cast": MEMBER}) for name in MEMBER]
    for route, field, name, body in parts:
        for value in VALUES:
            part = {**body[field], name: value}
            changed = {**body, field: [part] if field == "cast" else part}
            path = f"/interleave-thinker/{route}"
            yield Asked(f"{route}.{field}.{name} = {value!r:.30}", "POST", path, encoded(changed))
    for route, name in (("run", "run"), ("live", "node"), ("live", "workflow")):
        for value in VALUES:
            text = str(value)[:60_000].replace(HALF, "%ED%A0%80")
            given = {name: text} if name != "workflow" else {"node": "1", name: text}
            yield Asked(f"{route}?{name}={text:.30}", "GET", f"/interleave-thinker/{route}", query=given)


def encoded(body: dict[str, Any]) -> bytes:
    """As JSON, NaN and halves of characters as they are."""
    return json.dumps(body).encode()


def fault_of_answer(client: httpx.Client, asked: Asked) -> str:
    """Return what is wrong with the response; empty for a normal one or a one-line error."""
    more: Any = (
        {"params": asked.query}
        if asked.method == "GET"
        else {"content": asked.body, "headers": {"Content-Type": "application/json"}}
    )
    answer = client.request(asked.method, asked.path, **more)
    if answer.status_code == 200:
        return "" if isinstance(answer.json(), dict) else "an answer that is not an object"
    if answer.status_code in (413, 414) or (
        answer.status_code == 400 and "json" not in answer.headers["content-type"]
    ):
        # The server itself finds the request too long.
        return "" if len(answer.text) < 2000 and "Traceback" not in answer.text else "a long refusal"
    if answer.status_code not in (400, 404):
        return f"status {answer.status_code}: {answer.text[:200]}"
    words = answer.json().get("error", "")
    return "" if words and words.isprintable() and len(words) < 2000 else f"unclear: {words[:200]!r}"
