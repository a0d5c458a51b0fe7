"""Critic replies made from a known verdict: in every readable format, damaged, and of maximum length.

The meaning of a reply never comes from the tested reader. Whole replies quote answers in their reasoning and
prompts. Damaged ones are cut off, corrected, negated, repeat the format, or have lost their delimiters; they
may be rejected but not reversed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from support.doubtful_replies import doubtful_text

LONG = 100_000
"""Characters of the long replies."""
PLAIN = (
    "make the boat blue",
    "a calm bay at dawn, one red boat",
    "the cat's hat, in red",
    'a sign that says "open"',
    "a / b, 3 < 4",
    "two\nlines",
    "wait for it ...",
    "a “blue” boat",
)
SAID = {True: ("true", "True"), False: ("false", "False")}


@dataclass(frozen=True)
class Made:
    """A reply and its meaning (`None`: nothing, or two things).

    Attributes:
        thinking: The prompt had opened <think>.
        cut: It ended at the token limit.
        whole: It has the right format and must be read.
    """

    text: str
    says: bool | None
    kind: str
    thinking: bool = False
    cut: bool = False
    whole: bool = True


def quoted(rng: random.Random, says: bool) -> str:
    """Return an answer as a text may mention it."""
    word = rng.choice(SAID[says])
    key = rng.choice(("previous_step_success", "success"))
    return rng.choice(
        (
            f"<answer>{{'success': {word}}}</answer>",
            f'<answer>{{"{key}": {word}, "refine_prompt": ""}}</answer>',
            f'{{"{key}": {word}}}',
            f"{{'{key}': {word}, 'refine_prompt': 'x'}}",
            f'"{key}": {word},',
            f"{key}: {word}",
            f'{{"{key}": true or false, "refine_prompt": "..."}}',
            f'{{"{key}": true/false}}',
            f'{{"{key}": true|false, "refine_prompt": ""}}',
            f'\n{{"{key}": {word}, "refine_prompt": "x"}}\n',
            f'```json\n{{"{key}": {word}, "refine_prompt": "x"}}\n```',
        )
    )


def words(rng: random.Random, mentions: float) -> str:
    """Return a text that mentions an answer with this probability."""
    text = rng.choice(PLAIN)
    if rng.random() < mentions:
        text = f"{text} {rng.choice(('', 'not ', 'I must answer ', 'a poster: '))}{quoted(rng, rng.random() < 0.7)} {rng.choice(PLAIN)}"
    return text


def reasoning(rng: random.Random, says: bool) -> str:
    """Return a critic's reasoning, which may consider the opposite."""
    parts = [rng.choice(("It is red.", "The hat is missing.", "All of it is there.", "so", ""))]
    if rng.random() < 0.6:
        parts.append(
            f"I must answer {quoted(rng, not says)}. {rng.choice(('The hat is missing.', 'Hm', ''))}"
        )
    if rng.random() < 0.1:
        parts.append("I close with <think> tags?")
    return " ".join(parts)


def literal(text: str, quote: str) -> str:
    """Return a text in quotes of this kind, properly escaped."""
    escaped = text.replace("\\", "\\\\").replace(quote, "\\" + quote).replace("\n", "\\n")
    return f"{quote}{escaped}{quote}"


def answer(rng: random.Random, says: bool, refined: str) -> str:
    """Return an object in one of the accepted formats."""
    python = rng.random() < 0.4
    quote = "'" if python else '"'
    word = SAID[says][python]
    if rng.random() < 0.1:
        word = literal(word, quote)
    key = rng.choice(("previous_step_success", "previous_step_success", "success"))
    name = rng.choice(("refine_prompt", "refine_prompt", "refined_prompt", "Refine Prompt"))
    value = literal(refined, quote)
    if rng.random() < 0.1:
        value = rng.choice((literal("", quote), literal("None", quote), "None" if python else "null"))
    members = [f"{quote}{key}{quote}: {word}", f"{quote}{name}{quote}: {value}"]
    if rng.random() < 0.15:
        members.append(f"{quote}note{quote}: {literal(words(rng, 0.6), quote)}")
    if rng.random() < 0.4:
        rng.shuffle(members)
    space = rng.choice((" ", "", "\n  "))
    end = rng.choice(("", "", ","))
    return "{" + f",{space or ' '}".join(members) + f"{end}{rng.choice(('', chr(10)))}}}"


def whole(rng: random.Random) -> Made:
    """Return a reply in the right format."""
    says = rng.random() < 0.5
    thought = reasoning(rng, says)
    body = answer(rng, says, words(rng, 0.3))
    if rng.random() < 0.2:
        body = f"```{rng.choice(('json', 'python', ''))}\n{body}\n```"
        body = f"\n{body}\n" if rng.random() < 0.5 else body
    tagged = f"<answer>{body}</answer>"
    form = rng.choice(
        ("tags", "tags", "tags", "first", "thinking", "thinking", "bare", "no think", "open answer", "around")
    )
    gap = rng.choice(("\n\n", "\n", "", " "))
    if form == "tags":
        text = f"<think>{rng.choice(('', thought))}</think>{gap}{tagged}"
    elif form == "first":
        text = f"{tagged}{gap}<think>{thought}</think>"
    elif form == "thinking":
        return Made(f"{thought}</think>{gap}{tagged}", says, form, thinking=True)
    elif form == "bare":
        text = rng.choice(("{0}", "<think>{1}</think>{0}", "Here it is:\n{0}\nThat is all.")).format(
            body, thought
        )
    elif form == "no think":
        text = tagged
    elif form == "open answer":
        text = f"<think>{thought}</think>{gap}<answer>{body}"
    else:
        text = f"Well. {tagged} Done."
    return Made(text, says, form)


def damaged(rng: random.Random) -> Made:
    """Return a reply with a fault, which may be rejected."""
    made = whole(rng)
    text, says = made.text, made.says
    kind = rng.choice(
        (
            "cut",
            "cut",
            "cut",
            "correction",
            "negated",
            "schema",
            "lost piece",
            "lost piece",
            "unescaped",
            "unbraced",
        )
    )
    if kind == "cut":
        end = rng.randrange(len(text) + 1)
        # A reply that is cut off within its thought has no meaning yet, even if it mentions an answer.
        return Made(text[:end], says, kind, made.thinking, cut=True, whole=False)
    if kind == "correction":
        other = answer(rng, not says, "x")
        other = rng.choice((f" Correction: {other}", f"\nCorrection: <answer>{other}</answer>", f"\n{other}"))
        return Made(text + other, None, kind, made.thinking, whole=False)
    if kind == "negated":
        mention = quoted(rng, True).strip("\n")
        while mention.startswith(("<answer>", "```")):
            mention = quoted(rng, True).strip("\n")
        text = rng.choice(
            (
                f"I cannot answer {mention}: the hat is missing.",
                f'"note": "not {mention}"',
                f"It is not {mention} yet",
            )
        )
        return Made(text, None, kind, whole=False)
    if kind == "schema":
        word = rng.choice(
            (
                "true or false",
                "true/false",
                "true|false",
                "True or False",
                '"true" or "false"',
                "<true/false>",
            )
        )
        text = (
            f'<think>ok</think><answer>{{"previous_step_success": {word}, "refine_prompt": "..."}}</answer>'
        )
        if rng.random() < 0.5:
            return Made(text, None, kind, whole=False)
        return Made(f"{text}\n<answer>{answer(rng, bool(says), 'x')}</answer>", says, kind, whole=False)
    if kind == "lost piece":
        pieces = ("</think>", "</answer>", "<answer>", "<think>", '"', "'", ",", "}", ":", "{", "\\")
        piece = rng.choice([one for one in pieces if one in text] or [" "])
        places = [at for at in range(len(text)) if text.startswith(piece, at)]
        at = rng.choice(places) if places else 0
        lost = text[:at] + text[at + len(piece) :]
        return Made(lost, _still_says(lost, made), kind, made.thinking, whole=False)
    if kind == "unescaped":
        quote = rng.choice("\"'")
        refined = (
            rng.choice(PLAIN)
            + f" {quote}{rng.choice(('open', 'a, b', quoted(rng, not says)))}{quote} "
            + rng.choice(PLAIN)
        )
        verdict, prompt = (
            f"{quote}success{quote}: {SAID[bool(says)][0]}",
            f"{quote}refine_prompt{quote}: {quote}{refined}{quote}",
        )
        members = [verdict, prompt] if rng.random() < 0.5 else [prompt, verdict]
        text = rng.choice(("<think>ok</think><answer>{{{0}}}</answer>", "{{{0}}}")).format(", ".join(members))
        return Made(text, says, kind, whole=False)
    inner = answer(rng, bool(says), words(rng, 0.5)).strip("{}\n")
    return Made(rng.choice((inner, f"<answer>{inner}</answer>")), says, kind, whole=False)


def _still_says(text: str, made: Made) -> bool | None:
    """Return the meaning of a changed reply: `None` if its thought is no longer closed, else unchanged."""
    lost_close = "</think>" in made.text and "</think>" not in text
    return None if lost_close and made.kind != "first" and "<think>" in text else made.says


def doubtful(rng: random.Random) -> Made:
    """Return a reply that is easily misread."""
    text, says, kind = doubtful_text(rng)
    return Made(text, says, kind, whole=False)


def held(rng: random.Random) -> Made:
    """Return a reply in the grammar of verdicts (answers/grammar.py), as a constrained model writes it."""
    says, python = rng.random() < 0.6, rng.random() < 0.4
    quote = "'" if python else '"'
    key, name = (f"{quote}{one}{quote}" for one in ("previous_step_success", "refine_prompt"))
    refined = literal(words(rng, 0.5).replace("<", "(").replace(">", ")"), quote)
    space = rng.choice((" ", "", "\n"))
    answer = (
        f"<answer>{{{space}{key}:{space.strip()} {SAID[says][python]},{space}{name}: {refined}}}</answer>"
    )
    thought = reasoning(rng, says).replace("<", "(").replace(">", ")")
    form = rng.choice(("held, tags", "held, thinking", "held, first", "held, answer"))
    text = {
        "held, tags": f"<think>{thought}</think>\n{answer}",
        "held, thinking": f"{thought}</think>\n{answer}",
        "held, first": f"{answer}\n<think>{thought}</think>",
        "held, answer": answer,
    }[form]
    return Made(text, says, form, thinking=form == "held, thinking")


def make(rng: random.Random) -> Made:
    kind = rng.random()
    return whole(rng) if kind < 0.4 else damaged(rng) if kind < 0.7 else doubtful(rng)


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
