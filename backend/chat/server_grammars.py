"""Forms of the agents' answers for servers: a GBNF grammar for llama.cpp, a JSON schema for all others.

The grammar leaves the reasoning free and then allows exactly the form that agents are asked for. A schema
allows only JSON, so its first property is the reasoning. Both exclude what small models write instead of an
answer, as far as they can: the grammar numbers the steps in order, and its texts contain no tags, braces or
rows of dots. reading.py can parse everything they allow, except for copies of an example.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ..answers.found_object import REASONING
from ..answers.grammar import KINDS, GrammarName
from ..types import MAX_STEPS

TEXT = {"type": "string"}
NULL = {"type": "null"}
TEXT_OR_NULL = {"type": ["string", "null"]}
# "words" have five characters or more, which excludes "None" and "null", and do not start with dots.
RULES = r"""
reasoning ::= "<think>" thought
thought ::= [^<]* "</think>"
gap ::= [ \n]{0,4}
answer ::= "<answer>" w body w "</answer>"
w ::= [ \n]{0,16}
char ::= [^"\\<{}\x00-\x1f] | "\\" ["\\/n]
text ::= "\"" char* "\""
words ::= "\"" [^"\\<{}.…\x00-\x20] char char char char+ "\""
"""


@cache
def answer_gbnf(name: GrammarName, thinking: bool = False) -> str:
    """Return the GBNF grammar of a whole reply.

    Args:
        name: Kind of the answer. A verdict may also come before its reasoning.
        thinking: Whether the prompt already contains the opening `<think>`.
    """
    root = "thought gap answer" if thinking else "(reasoning gap)? answer"
    if name == "verdict" and not thinking:
        root += " | answer gap reasoning"
    bodies = {
        "plan": _plan,
        "part": lambda: _plan(f" {_comma('state')} text"),
        "verdict": lambda: _object(
            f'{_key("previous_step_success")} ("true" | "false") {_comma("refine_prompt")} text'
        ),
        "outline": lambda: _object(
            f'{_key("outline")} "[" w words (w "," w words)* w "]" {_comma("always")} text'
        ),
        "cast": _cast,
    }
    return f"root ::= {root}\n{RULES.lstrip()}{bodies[name]()}"


def answer_schema(name: GrammarName) -> dict[str, Any]:
    """Return the JSON schema of an answer with its reasoning.

    It has only keywords that all servers support, and all properties are required, as OpenAI's strict mode
    demands.
    """
    step = {"step_number": {"type": "integer"}, "step_name": TEXT_OR_NULL, "instruction": TEXT_OR_NULL}
    steps = {
        "type": "array",
        "minItems": 1,
        "items": {
            "anyOf": [
                _schema({**step, "prompt": TEXT, "auxiliary_text": TEXT_OR_NULL}),
                _schema({**step, "prompt": NULL, "auxiliary_text": TEXT}),
            ]
        },
    }
    kind = {"type": "string", "enum": list(KINDS)}
    member = _schema({"name": TEXT, "kind": kind, "traits": _list(TEXT)})
    entry = _schema({"step_number": {"type": "integer"}, "cast": _list(TEXT), "facts": _list(TEXT)})
    bodies: dict[GrammarName, dict[str, Any]] = {
        "plan": {"execution_plan": steps},
        "part": {"execution_plan": steps, "state": TEXT},
        "verdict": {"previous_step_success": {"type": "boolean"}, "refine_prompt": TEXT},
        "outline": {"outline": {"type": "array", "minItems": 1, "items": TEXT}, "always": TEXT},
        "cast": {"cast": _list(member), "steps": _list(entry)},
    }
    return _schema({REASONING: TEXT, **bodies[name]})


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _plan(after: str = "") -> str:
    """Return the rules of a plan: one rule per step number, because a grammar cannot count."""
    numbers = range(1, MAX_STEPS + 1)
    first = " | ".join(f"n{number}" for number in numbers)
    rules = [
        _object(f'{_key("execution_plan")} "[" w begin ({first}) w "]"{after}'),
        f'begin ::= "{{" w {_key("step_number")}',
        f'rest ::= {_comma("step_name")} (text | "null") {_comma("instruction")} (text | "null") '
        '(drawn | told) w "}"',
        f'drawn ::= {_comma("prompt")} words {_comma("auxiliary_text")} (text | "null")',
        f'told ::= {_comma("prompt")} "null" {_comma("auxiliary_text")} words',
    ]
    for number in numbers:
        later = f' (w "," w begin n{number + 1})?' if number < MAX_STEPS else ""
        rules.append(f'n{number} ::= "{number}" rest{later}')
    return "\n".join(rules)


def _cast() -> str:
    """Return the rules of a cast. A name may be short, so its text has any length."""
    kinds = " | ".join(rf'"\"{kind}\""' for kind in KINDS)
    return "\n".join(
        [
            _object(
                f'{_key("cast")} "[" w (member (w "," w member)*)? w "]" '
                f'{_comma("steps")} "[" w entry (w "," w entry)* w "]"'
            ),
            f'member ::= "{{" w {_key("name")} name {_comma("kind")} ({kinds}) '
            f'{_comma("traits")} names w "}}"',
            f'entry ::= "{{" w {_key("step_number")} [1-9] [0-9]? [0-9]? {_comma("cast")} names '
            f'{_comma("facts")} names w "}}"',
            'names ::= "[" w (name (w "," w name)*)? w "]"',
            r'name ::= "\"" [^"\\<{}.…\x00-\x20] char* "\""',
        ]
    )


def _object(members: str) -> str:
    return f'body ::= "{{" w {members} w "}}"'


def _key(name: str) -> str:
    return rf'"\"{name}\"" w ":" w'


def _comma(name: str) -> str:
    return f'w "," w {_key(name)}'
