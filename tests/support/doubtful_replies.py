"""Critic replies that are easily misread.

They contain envelopes with their own success value, corrections in another spelling or after the answer, and
drafts in thoughts of unknown names. Their meaning is known. They may be rejected but not reversed.
"""

from __future__ import annotations

import json
import random
from typing import Any

KEYS = (
    "previousStepSuccess",
    "PreviousStepSuccess",
    "Previous Step Success",
    "previous-step-success",
    "previous.step.success",
    "PREVIOUS_STEP_SUCCESS",
    "previousstepsuccess",
    "previous_step_success",
    "step_success",
    "isSuccess",
    "is_successful",
    "stepSucceeded",
    "success",
    "Success",
)
PAYLOADS = (
    "data",
    "output",
    "result",
    "content",
    "arguments",
    "response",
    "message",
    "tool_result",
    "verdict",
)
TAGS = (
    "analysis",
    "reflection",
    "scratchpad",
    "reason",
    "inner_monologue",
    "draft",
    "Thoughts",
    "chain-of-thought",
    "\u601d\u8003",
    "analysis type='first'",
)
CORRECTIONS = (
    " Wait, that is wrong: ",
    "\nCorrection: ",
    " Actually, no. ",
    "\n\nOn reflection:\n",
    "\n",
    " ",
)


def verdict_object(rng: random.Random, says: bool, key: str | None = None) -> dict[str, Any]:
    """Return an answer in one of many spellings of its keys."""
    value: Any = says
    if rng.random() < 0.15:
        value = rng.choice((str(says), str(says).lower()))
    made = {key or rng.choice(KEYS): value}
    if rng.random() < 0.8:
        made[rng.choice(("refine_prompt", "refined_prompt", "refinePrompt", "Refine Prompt"))] = rng.choice(
            ("", "add the hat", "a calm bay at dawn")
        )
    return made


def written(rng: random.Random, value: Any) -> str:
    """Return a value as JSON or as a Python literal."""
    return rng.choice((json.dumps(value), json.dumps(value, indent=1), repr(value)))


def enveloped(rng: random.Random, says: bool) -> tuple[dict[str, Any], bool | None]:
    """Return an answer within envelopes of random depth and encoding, and its meaning.

    The meaning is the inner verdict, or `None` if an envelope has an answer's key with the opposite value.
    """
    inner: Any = verdict_object(rng, says)
    for _ in range(rng.randint(1, 4)):
        if rng.random() < 0.5:
            inner = written(rng, inner)
            if rng.random() < 0.3:
                inner = rng.choice((json.dumps(inner), repr(inner), f"```json\n{inner}\n```"))
            if rng.random() < 0.15:
                inner = f"<think>The hat.</think><answer>{inner}</answer>"
        if rng.random() < 0.2:
            inner = [inner]
        inner = {rng.choice(PAYLOADS): inner}
        if rng.random() < 0.3:
            inner = {"tool": "judge", **inner}
    key, value = rng.choice(("success", "Success", "success", "previous_step_success")), rng.random() < 0.8
    members = [(key, value), *inner.items(), *([("refine_prompt", "")] if rng.random() < 0.2 else [])]
    rng.shuffle(members)
    return dict(members), None if key == "previous_step_success" and value != says else says


def envelope(rng: random.Random, says: bool) -> tuple[str, bool | None, str]:
    value, means = enveloped(rng, says)
    text = written(rng, value)
    return (
        rng.choice(("{0}", "<answer>{0}</answer>", "<think>It is red.</think>\n{0}")).format(text),
        means,
        "envelope",
    )


def respelled(rng: random.Random, says: bool) -> tuple[str, bool | None, str]:
    """Return an answer with its correction in another spelling, encoding or depth."""
    first = {"previous_step_success": says, "refine_prompt": rng.choice(("", "a red hat"))}
    second: Any = verdict_object(rng, not says)
    if rng.random() < 0.4:
        second = {rng.choice(PAYLOADS): rng.choice((second, written(rng, second), [second]))}
    pair = [written(rng, first), written(rng, second)]
    if rng.random() < 0.3:
        pair.reverse()
    before, after = pair
    if rng.random() < 0.3:
        before = f"<answer>{before}</answer>"
    elif rng.random() < 0.3:
        before = f"{before}\n"
    return f"{before}{rng.choice(CORRECTIONS)}{after}", None, "respelled"


def drafted(rng: random.Random, says: bool) -> tuple[str, bool | None, str]:
    """Return a draft in a thought with an unknown name, and the answer after it, if any."""
    tag = rng.choice(TAGS)
    opening, closing = rng.choice(("<{0}>|</{1}>", "[{0}]|[/{1}]")).format(tag, tag.split()[0]).split("|")
    if " " in opening and opening[0] == "[":
        opening = f"[{tag.split()[0]}]"
    draft = written(rng, verdict_object(rng, not says, rng.choice(("previous_step_success", "success"))))
    if rng.random() < 0.3:
        draft = f"<answer>{draft}</answer>"
    draft = rng.choice(("Is it\n{0}\n?", "\n{0}\n", "```json\n{0}\n```", "{0}")).format(draft)
    answer = written(rng, verdict_object(rng, says))
    form = rng.random()
    if form < 0.25:
        return f"{opening}{draft}{closing}\nThe hat is missing.", None, "draft alone"
    if form < 0.35 and opening[0] == "<":
        return f"{opening}\n{draft}\nThe hat is missing.", None, "draft in an open thought"
    if form < 0.5 and opening[0] == "<":
        # Opened by the prompt.
        return f"{draft}{closing}\n{answer}", says, "draft before a closing tag"
    answer = rng.choice(("{0}", "<answer>{0}</answer>", "```json\n{0}\n```")).format(answer)
    return f"{opening}{draft}{closing}\n{answer}", says, "draft"


def corrected(rng: random.Random, says: bool) -> tuple[str, bool | None, str]:
    """Return an answer in the requested format that the same reply takes back."""
    first, second = (
        written(rng, {"previous_step_success": one, "refine_prompt": rng.choice(("", "a hat"))})
        for one in (says, not says)
    )
    thought = rng.choice(("", "<think>It is red.</think>\n"))
    wrap = rng.choice(("{0}", "<answer>{0}</answer>", "\n{0}", "<think>No hat.</think><answer>{0}</answer>"))
    return (
        f"{thought}<answer>{first}</answer>{rng.choice(CORRECTIONS)}{wrap.format(second)}",
        None,
        "taken back",
    )


def doubtful_text(rng: random.Random) -> tuple[str, bool | None, str]:
    """Return a reply, its meaning (`None`: nothing, or two things) and its kind."""
    return rng.choice((envelope, respelled, drafted, corrected))(rng, rng.random() < 0.5)
