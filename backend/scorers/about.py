"""What a user must know before choosing a scorer: license, memory, range, and what it measures.

The table is shown by `evaluate scorer --list` and checked by the contract test. A plug-in states its own as a
dictionary `ABOUT` in its module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from ..shown_text import one_line


@dataclass(frozen=True)
class About:
    """Facts about a scorer.

    Attributes:
        usage: How it is named on the command line.
        measures: What it scores.
        license: License of the weights that it is made for; "your model's" if any model can be used.
        memory: Memory of its weights. Computed from the number of weights, not measured.
        range: Scale of its model, and how it becomes 0 to 10.
    """

    usage: str
    measures: str
    license: str
    memory: str
    range: str


NOT_STATED = "not stated"
MAX_FACT = 200


def stated(facts: object, name: str) -> About:
    """Return what a plug-in states about its scorer `name`; what it leaves out is `NOT_STATED`."""
    given = facts if isinstance(facts, Mapping) else {}
    texts = {field.name: given.get(field.name) for field in fields(About)} | {"usage": name}
    return About(
        **{
            key: one_line(value)[:MAX_FACT] if isinstance(value, str) and value else NOT_STATED
            for key, value in texts.items()
        }
    )


OF_THE_MODEL = "your model's"
OF_THE_CHAT = "that of the chat model; none here with a server"

ABOUT = {
    "tinyworld": About(
        "tinyworld",
        "both parts, exactly, of tiny-world images",
        "Apache-2.0 (this package)",
        "none",
        "0 to 10",
    ),
    "judge": About("judge:CHAT", "both parts", OF_THE_MODEL, OF_THE_CHAT, "0 to 10"),
    "judge-v1": About(
        "judge-v1:CHAT", "both parts, with the prompts of version 1", OF_THE_MODEL, OF_THE_CHAT, "0 to 10"
    ),
    "editscore": About(
        "editscore:CHAT",
        "both parts of edits",
        "code Apache-2.0; weights: see the model card of the adapter",
        "base in bfloat16: 4B 9 GB, 7B 17 GB, 8B 18 GB",
        "0 to 25, divided by 2.5",
    ),
    "unifiedreward": About(
        "unifiedreward:CHAT",
        "both parts of edits",
        "MIT",
        "in bfloat16: 2B 4 GB, 4B 9 GB, 8B 18 GB",
        "0 to 25, divided by 2.5",
    ),
    "rationalrewards": About(
        "rationalrewards:CHAT",
        "both parts, and lettering if the prompt asks for it",
        "Apache-2.0 (model card of the T2I model)",
        "8B in bfloat16: 18 GB",
        "1 to 4; 1 becomes 0 and 4 becomes 10",
    ),
    "similarity": About(
        "similarity:FOLDER",
        "semantics: image and prompt, or image and source",
        "CLIP of OpenAI MIT, SigLIP of Google Apache-2.0; others: see their model card",
        "in float32: CLIP B/32 0.6 GB, L/14 1.7 GB, SigLIP so400m 3.5 GB",
        "CLIP: 25 x cosine; SigLIP: 10 x probability; source: 10 x cosine",
    ),
    "lettering": About(
        "lettering:CHAT or lettering:ocr:FOLDER",
        "semantics: texts in quotes in the prompt",
        "your model's; GOT-OCR 2.0 Apache-2.0, TrOCR MIT",
        "GOT-OCR 2.0 in bfloat16 1.2 GB; or that of the chat model",
        "0 to 10: 10 x (1 - edit distance / length) of the worst text",
    ),
    "pairwise": About(
        "pairwise:CHAT",
        "which of two images is better, asked in both orders",
        OF_THE_MODEL,
        OF_THE_CHAT,
        "0 to 10: share of the comparisons that it wins",
    ),
    "mean": About(
        "mean:A + B or mean:3*A + 1*B", "what its members measure", "its members'", "its members'", "0 to 10"
    ),
    "min": About("min:A + B", "what its members measure", "its members'", "its members'", "0 to 10"),
    "repeat": About(
        "repeat:N:SCORER",
        "what its member measures, as the mean of N samples",
        "its member's",
        "its member's",
        "0 to 10",
    ),
}
"""Facts by registered name."""
