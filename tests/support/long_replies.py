"""Replies of maximum length for which a careless reader needs quadratic time."""

from __future__ import annotations

LONG = 100_000
"""Characters of the long replies."""


def long_replies() -> dict[str, str]:
    """Return replies of LONG characters for which a careless reader needs quadratic time."""
    made = {}
    for unit in HOSTILE:
        text = unit * (LONG // len(unit))
        made[f"{unit!r} * n"] = text
        made[f"answer of {unit!r} * n"] = f"<answer>{text[: LONG - 20]}</answer>"
        made[f"prompt of {unit!r} * n"] = f'<answer>{{"success": false, "refine_prompt": "{text[: LONG - 60]}'
        made[f"thought of {unit!r} * n"] = (
            f'<think>{text[: LONG - 60]}</think><answer>{{"success": true, "x": 1}}</answer>'
        )
    made["'<' and blanks"] = "<" + " " * (LONG - 1)
    return made


HOSTILE = (
    "{", "[", '"', "'", "\\", "<", "< ", " ", "\n", "-", ",", ":", "}", '{"', "{'a':", '{"a":"', "{a:'", '{"a":{}}', "{a:1}\n",
    '{"a":1}\n', "[{},", "[[],", "<answer>", "</answer>", "<think>", "</think>", "<answer><think>", "</think><answer>{",
    "success:", "success: true ", "success: true, ", '{"success": true', '{"success": true,', '{"success": true}', '"success": true},',
    '{"success":', '", "a": "', "','", '\\"', "\"'", "“", "```\n", "{ ", '" ', '" , ', "a ", "{a b c ", '{"success" ', "\n {", "\n{'a':'",
)  # fmt: skip
