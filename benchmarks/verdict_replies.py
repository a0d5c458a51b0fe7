"""Critics' replies by the ten thousand, and how many of them are read as the opposite of what they say.

    python benchmarks/verdict_replies.py --replies 40000 --seed 0        # a table; status 1 if a reply is read wrongly

Decision: a reply is made from a verdict that is known, so what it says never comes from the reader that is tested. Whole
replies quote answers in their reasoning and their prompts; damaged ones are cut off, corrected, negated, echo the form, or
have lost what held them together, and may be refused but not turned. Every reply is also read as it arrives, in random
pieces: from a server (which may or may not tell log-probabilities, and may have opened the thought) and from a model here.
A server's stop is wrong where the whole reply would have been read as the opposite. One row counts what no early stop can
know: that something after a True answer would have contradicted it.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)

import tests.conftest  # noqa: E402, F401 - makes the checkout importable as interleave_thinker
from interleave_thinker.backend.answers import read_verdict  # noqa: E402
from interleave_thinker.backend.chat import Reply, ReplySettings  # noqa: E402
from interleave_thinker.backend.chat.listening import ReplyListener  # noqa: E402
from interleave_thinker.backend.chat.openai import _Reading  # noqa: E402
from interleave_thinker.backend.chat.openai_stream import Chunk  # noqa: E402
from interleave_thinker.backend.errors import AnswerError  # noqa: E402

LONG = 100_000
"""Characters of the long replies."""
PLAIN = (
    "make the boat blue",
    "a calm bay at dawn, one red boat",
    "the cat's hat, in red",
    'a sign that says "open"',
    "a / b, 3 < 4",
    "two\nlines",
    "...",
    "a “blue” boat",
)
SAID = {True: ("true", "True"), False: ("false", "False")}


@dataclass(frozen=True)
class Made:
    """A reply and what it says (None: nothing, or two things). `thinking`: its prompt had opened <think>; `cut`: it
    ended because no more tokens were allowed; `whole`: it has its form, so that it should be read."""

    text: str
    says: bool | None
    kind: str
    thinking: bool = False
    cut: bool = False
    whole: bool = True


def quoted(rng: random.Random, says: bool) -> str:
    """An answer as a text may mention it."""
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
    """A text that mentions an answer with this probability."""
    text = rng.choice(PLAIN)
    if rng.random() < mentions:
        text = f"{text} {rng.choice(('', 'not ', 'I must answer ', 'a poster: '))}{quoted(rng, rng.random() < 0.7)} {rng.choice(PLAIN)}"
    return text


def reasoning(rng: random.Random, says: bool) -> str:
    """What a critic thinks; it may weigh the opposite."""
    parts = [rng.choice(("It is red.", "The hat is missing.", "All of it is there.", "so", ""))]
    if rng.random() < 0.6:
        parts.append(
            f"I must answer {quoted(rng, not says)}. {rng.choice(('The hat is missing.', 'Hm', ''))}"
        )
    if rng.random() < 0.1:
        parts.append("I close with <think> tags?")
    return " ".join(parts)


def literal(text: str, quote: str) -> str:
    """A text in quotes of this kind, properly escaped."""
    escaped = text.replace("\\", "\\\\").replace(quote, "\\" + quote).replace("\n", "\\n")
    return f"{quote}{escaped}{quote}"


def answer(rng: random.Random, says: bool, refined: str) -> str:
    """An object in one of the forms that are to be accepted."""
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
    """A reply that has its form."""
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
    """A reply with something wrong about it: it may be refused."""
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
        # What is cut off within its thought says nothing yet, whatever it mentions.
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
    """A verdict whose thought is not closed any more says nothing; else what it said."""
    lost_close = "</think>" in made.text and "</think>" not in text
    return None if lost_close and made.kind != "first" and "<think>" in text else made.says


def make(rng: random.Random) -> Made:
    return whole(rng) if rng.random() < 0.5 else damaged(rng)


def pieces_of(rng: random.Random, text: str) -> list[str]:
    """The text in random pieces, short ones mostly."""
    pieces, at = [], 0
    longest = rng.choice((1, 4, 4, 12, 200))
    while at < len(text):
        size = rng.randint(1, longest)
        pieces.append(text[at : at + size])
        at += size
    return pieces


def said_by(reply: Reply) -> bool | None:
    """The verdict in a reply, None if it is refused. Replies that know of an opened thought tell it."""
    try:
        return read_verdict(getattr(reply, "whole", reply.text)).success
    except AnswerError:
        return None


def read_whole(made: Made) -> Reply:
    """The reply as a server gives it without being watched."""
    return Reply(text=made.text, finish="length" if made.cut else "end")


def from_server(made: Made, pieces: Sequence[str], with_logprobs: bool) -> Reply:
    """The reply as a server streams it, watched."""
    reading = _Reading(True, None)
    for piece in pieces:
        alternatives: Any = ((piece, (("true", -0.5), ("false", -1.0))),) if with_logprobs else ()
        if reading.add(Chunk(piece, tokens=1, alternatives=alternatives)):
            return reading.reply()
    if made.cut:
        reading.add(Chunk("", finish="length"))
    return reading.reply()


class _Pieces:
    """A tokenizer whose tokens are the pieces of one reply."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces = pieces

    def decode(self, tokens: Sequence[int], **options: Any) -> str:
        return "".join(self._pieces[token] for token in tokens)


def from_model(made: Made, pieces: Sequence[str]) -> Reply:
    """The reply as a model here says it, watched; its prompt is known."""
    settings = ReplySettings(watch_verdict=True)
    listener = ReplyListener(_Pieces(pieces), {len(pieces)}, ((), ()), settings, made.thinking, None)
    if not any(listener.take(number) for number in range(len(pieces))) and not made.cut:
        listener.take(len(pieces))
    return listener.reply()


def long_replies() -> dict[str, str]:
    """Replies of LONG characters that a careless reader needs the square of their length for."""
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


def timed(read: Callable[[], object]) -> float:
    """Seconds of processor time."""
    start = time.process_time()
    with contextlib.suppress(AnswerError):
        read()
    return time.process_time() - start


def slowest() -> tuple[tuple[float, str], tuple[float, str]]:
    """Of the long replies: (seconds, name) of the slowest to read, and of the slowest to watch in pieces of 4 characters."""
    whole_times, watched_times = [], []
    for name, text in long_replies().items():
        whole_times.append((timed(lambda text=text: read_verdict(text)), name))
        pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
        watched_times.append(
            (timed(lambda text=text, pieces=pieces: from_server(Made(text, None, ""), pieces, False)), name)
        )
    return max(whole_times), max(watched_times)


def counted(replies: int, seed: int) -> tuple[Counter[str], list[str]]:
    """How the replies are read, and some of those that are read wrongly."""
    rng, counts, wrong = random.Random(seed), Counter[str](), []

    def note(what: str, made: Made) -> None:
        counts[what] += 1
        if len(wrong) < 20 and what.startswith("wrong"):
            wrong.append(f"{what} ({made.kind}, says {made.says}): {made.text!r}")

    for _ in range(replies):
        made = make(rng)
        pieces = pieces_of(rng, made.text)
        counts["replies"] += 1
        counts["whole replies" if made.whole else "damaged replies"] += 1
        read = said_by(read_whole(made))
        if read is not None and read != made.says:
            note("wrong: read whole", made)
            if made.says is False:
                counts["false replies read as True"] += 1
                counts["false replies with their form read as True"] += made.whole
        if made.whole:
            counts[f"{made.says} replies with their form"] += 1
            counts[f"{made.says} replies with their form, not read"] += read is None
        elif read is None:
            counts["damaged replies refused"] += 1
        ways = {
            "server": from_server(made, pieces, False),
            "server with log-probabilities": from_server(made, pieces, True),
            "model": from_model(made, pieces),
        }
        for way, reply in ways.items():
            watched = said_by(reply)
            counts[f"stopped early, {way}"] += reply.finish == "verdict"
            if reply.finish == "verdict" and watched is None and made.whole:
                note("wrong: stopped, and not read", replace(made, text=reply.text))
            if watched is not None and watched != made.says:
                if made.kind == "correction" and made.text.startswith(reply.text):
                    counts["stopped before a contradiction"] += 1
                else:
                    note(f"wrong: watched, {way}", made)
                    counts["false replies read as True when watched"] += made.says is False
            if reply.finish == "verdict" and None not in (read, watched) and watched != read:
                note("wrong: stopped at the opposite of the whole reply", made)
    return counts, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--replies", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--untimed", action="store_true", help="leave the long replies out")
    options = parser.parse_args()
    start = time.process_time()
    counts, wrong = counted(options.replies, options.seed)
    for what, count in sorted(counts.items()):
        print(f"{what:<62}{count:>8}")
    bad = sum(count for what, count in counts.items() if what.startswith("wrong"))
    print(f"{'read wrongly, all in all':<62}{bad:>8}")
    print(
        f"{'seconds for a reply, read four times':<62}{(time.process_time() - start) / options.replies:>8.4f}"
    )
    if not options.untimed:
        for what, (seconds, name) in zip(("read", "watched"), slowest(), strict=True):
            print(f"{f'slowest of {LONG} characters, {what}: {name}':<62}{seconds:>8.3f}")
    for line in wrong:
        print(line)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
