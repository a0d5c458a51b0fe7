"""Lark grammars of the agents' answers, for constrained decoding. reading.py can parse everything they allow.

The parser is tolerant, the grammar is not. It allows the format that agents are asked for, as JSON or as a
Python literal throughout, and excludes everything that the parser rejects: a step without content, numbers
that do not ascend, tags or further steps inside a string, the word None instead of a text. Reasoning is free
text. White space is limited, since constrained models tend to end in it.
"""

from __future__ import annotations

from functools import cache
from typing import Literal, get_args

from ..types import MAX_STEPS
from ..types.cast import MemberKind

GrammarName = Literal["plan", "verdict", "outline", "part", "cast"]
"""Kinds of answers: a plan, a verdict, the outline and parts of a long plan, and the cast of a plan."""
KINDS = get_args(MemberKind)
"""Kinds of members of a cast."""

# White space as in Python's `\s` and `strip`; other engines do not include the separators 1c..1f.
BLANK = r"[\s\x1c-\x1f]"
TAG = rf"<{BLANK}*\/?{BLANK}*(think|thinking|thought|reasoning|answer){BLANK}*>"
# Escapes of ordinary letters are excluded, since they could spell what is excluded below.
HIGH = (
    r"u(003[cCeE]|002[67]|00[a-fA-F][0-9a-fA-F]|0[1-9a-fA-F][0-9a-fA-F]{2}|"
    r"[1-9a-cA-CeEfF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})"
)
BLANKS = rf"({BLANK}|\\[nrt]|\\u[0-9a-fA-F]{{4}})*"
WORDS = rf"""
THOUGHT: /(?s:.*)/ & ~/(?is:.*{TAG}.*)/
GAP: /[ \n]{{1,4}}/
W: /[ \n\t]{{1,24}}/
S: /[ \t]{{1,4}}/
RULED_OUT: /(?is:.*(step_number|{TAG}).*)/
NOTHING: /{BLANKS}([nN][oO][nN][eE]|[nN][uU][lL][lL])?{BLANKS}/
CHARACTERS: /([^"\\\x00-\x1f]|\\(["\\\/nrt]|{HIGH}))*/ & ~RULED_OUT
DOUBLE: /([^"\\\x00-\x1f]|\\["'\\nrt])*/ & ~RULED_OUT
SINGLE: /([^'\\\x00-\x1f]|\\["'\\nrt])*/ & ~RULED_OUT
JSON_TEXT: "\"" CHARACTERS "\""
JSON_WORDS: "\"" (CHARACTERS & ~NOTHING) "\""
PYTHON_TEXT: "\"" DOUBLE "\"" | "'" SINGLE "'"
PYTHON_WORDS: "\"" (DOUBLE & ~NOTHING) "\"" | "'" (SINGLE & ~NOTHING) "'"
thought[suffix="</think>"]: THOUGHT
reasoning: "<think>" thought
answer: "<answer>" W? (json | python) W? "</answer>"
"""
STYLES = {"json": ("null", "true", "false"), "python": ("None", "True", "False")}


@cache
def answer_grammar(name: GrammarName, thinking: bool = False) -> str:
    """Return the grammar of a whole reply: the reasoning, if there is one, then the answer, then the end.

    Args:
        name: Kind of the answer. A verdict may also come before its reasoning.
        thinking: Whether the prompt already contains the opening `<think>`.
    """
    bodies = {
        "plan": _plan,
        "verdict": _verdict,
        "outline": _outline,
        "part": lambda: _plan(state=True),
        "cast": _cast,
    }
    body = bodies[name]()
    if thinking:
        start = "start: thought GAP? answer"
    elif name == "verdict":
        start = "start: (reasoning GAP?)? answer | answer GAP? reasoning"
    else:
        start = "start: (reasoning GAP?)? answer"
    return f"{start}\n{WORDS}{body}"


def _verdict() -> str:
    return "\n".join(
        f'{style}: "{{" W? {_key(style, "previous_step_success")} ("{true}" | "{false}") W? "," W? '
        f'{_key(style, "refine_prompt")} {style.upper()}_TEXT W? "}}"'
        for style, (_, true, false) in STYLES.items()
    )


def _outline() -> str:
    """Return the rules of an outline. Its lines do not have numbers; they are counted in order."""
    return "\n".join(
        f'{style}: "{{" W? {_key(style, "outline")} "[" W? {style.upper()}_WORDS '
        f'("," W? {style.upper()}_WORDS)* W? "]" W? "," W? {_key(style, "always")} {style.upper()}_TEXT W? '
        '"}"'
        for style in STYLES
    )


def _cast() -> str:
    """Return the rules of a cast: the members, then who is in each step and what is true there."""
    rules = []
    for style in STYLES:
        words = f"{style.upper()}_WORDS"
        texts = f'"[" W? ({words} (W? "," W? {words})*)? W? "]"'
        quotes = ('\\"',) if style == "json" else ('\\"', "'")
        kinds = " | ".join(f'"{quote}{kind}{quote}"' for quote in quotes for kind in KINDS)
        rules += [
            f'{style}: "{{" W? {_key(style, "cast")} "[" W? ({style}_member (W? "," W? {style}_member)*)? W? '
            f'"]" W? "," W? {_key(style, "steps")} "[" W? {style}_entry (W? "," W? {style}_entry)* W? "]" '
            'W? "}"',
            f'{style}_member: "{{" W? {_key(style, "name")} {words} W? "," W? {_key(style, "kind")} '
            f'({kinds}) W? "," W? {_key(style, "traits")} {texts} W? "}}"',
            f'{style}_entry: "{{" W? {_key(style, "step_number")} /[1-9][0-9]?[0-9]?/ W? "," W? '
            f'{_key(style, "cast")} {texts} W? "," W? {_key(style, "facts")} {texts} W? "}}"',
        ]
    return "\n".join(rules)


def _plan(state: bool = False) -> str:
    """Return the rules of a plan: a chain with one rule per step number, because a grammar cannot count.

    With `state`, notes follow the steps.
    """
    rules = []
    for style, (null, _, _) in STYLES.items():
        text, words = f"{style.upper()}_TEXT", f"{style.upper()}_WORDS"
        starts = " | ".join(f"{style}_{number}" for number in range(1, MAX_STEPS + 1))
        after = f'"," W? {_key(style, "state")} {text} W? ' if state else ""
        rules += [
            f'{style}: "{{" W? {_key(style, "execution_plan")} "[" W? ({starts}) W? "]" W? {after}"}}"',
            f'{style}_content: "," W? {_key(style, "step_name")} ({text} | "{null}") W? '
            f'"," W? {_key(style, "instruction")} ({text} | "{null}") W? "," W? ({style}_drawn | '
            f'{style}_told) W? "}}"',
            f'{style}_drawn: {_key(style, "prompt")} {words} W? "," W? '
            f'{_key(style, "auxiliary_text")} ({text} | "{null}")',
            (
                f'{style}_told: {_key(style, "prompt")} "{null}" W? "," W? {_key(style, "auxiliary_text")} '
                f"{words}"
            ),
        ]
        for number in range(1, MAX_STEPS + 1):
            later = f' (W? "," W? {style}_{number + 1})?' if number < MAX_STEPS else ""
            rules.append(
                f'{style}_{number}: "{{" W? {_key(style, "step_number")} "{number}" W? {style}_content{later}'
            )
    return "\n".join(rules)


def _key(style: str, name: str) -> str:
    quoted = f'"\\"{name}\\""' if style == "json" else f'("\'{name}\'" | "\\"{name}\\"")'
    return f'{quoted} W? ":" S?'
