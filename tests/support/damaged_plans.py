"""Planner replies made from known steps: damaged ones, and harmlessly varied ones.

`KINDS` is the table of kinds. The meaning of a reply never comes from the tested reader. A reply of a `whole`
kind must be read as its steps. One without steps is not definite and must be refused. Any other may be
refused, but if it is read, then as its steps.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from interleave_thinker import AnswerError, Step
from interleave_thinker.backend.core.answers.long_plan import read_part
from interleave_thinker.backend.core.answers.reading import read_plan

FIELDS = ("step_name", "instruction", "prompt", "auxiliary_text")
Steps = list[dict[str, Any]]
ROWS = (
    ("The harbor", "Draw the empty bay.", "a calm bay at dawn, one red boat", "Very early, the boat sailed."),
    ("Signs", 'Add a sign that says "OPEN".', 'a sign "OPEN" above the door, soft light', None),
    ("Mia's hat", None, "Mia's hat, in red: the cat's favorite {wide shot} [tiny]", "It's Mia's, she said."),
    ("招牌", "加一块写着“营业”的招牌。", "门上写着“营业”的招牌，柔和的光", None),
    ("La señal", None, "un letrero «ABIERTO» sobre la puerta, luz suave", "„Endlich“, sagte Mia."),
    ("الميناء", "ارسم الخليج.", "خليج هادئ عند الفجر، قارب أحمر", "في الصباح الباكر."),
)
TOLD = ("The end.", "完。", "They all slept, and the boat too.")
DELIMITERS = ("comma", "colon", "brace", "bracket", "open", "close", "key")


@dataclass(frozen=True)
class Reply:
    """A planner's reply, and the steps that it means (`None`: not definite)."""

    text: str
    steps: Steps | None
    whole: bool = False
    numbers: range | None = None
    kind: str = ""


Kind = Callable[[random.Random], Reply]
Change = Callable[[random.Random, str], str]


def story(rng: random.Random, most: int = 6, first: int = 1) -> Steps:
    """Return steps with an image, and a text-only step now and then."""
    steps: Steps = []
    for number in range(first, first + rng.randint(2, most)):
        name, instruction, prompt, caption = rng.choice(ROWS)
        if rng.random() < 0.2:
            instruction, prompt, caption = None, None, rng.choice(TOLD)
        values = (f"{name} {number}", instruction, prompt and f"{prompt} ({number})", caption)
        steps.append({"step_number": number, **dict(zip(FIELDS, values, strict=True))})
    return steps


def dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def body(rng: random.Random, steps: Steps, **more: object) -> str:
    """Return the object of a plan as JSON in one of several layouts."""
    if rng.random() < 0.3:
        rest = "".join(f', "{key}": {dumped(item)}' for key, item in more.items())
        return '{"execution_plan": [\n' + ",\n".join(map(dumped, steps)) + f"\n]{rest}}}"
    return json.dumps({"execution_plan": steps, **more}, ensure_ascii=False, indent=rng.choice((None, 2)))


def framed(rng: random.Random, text: str, closed: bool = False) -> str:
    """Return an answer with what models write around it."""
    frames = ["<answer>{}</answer>", "```json\n{}\n```", "<think>Two pages.</think>\n\n<answer>\n{}</answer>"]
    if not closed:
        frames += [
            "{}",
            "<think>a plan</think>\n{}",
            "Here is the plan:\n{}\nEnjoy.",
            "so</think><answer>{}</answer>",
        ]
    return rng.choice(frames).replace("{}", text)


def marks(text: str, kinds: Sequence[str] = DELIMITERS) -> list[int]:
    """Return the positions of delimiters of JSON or Python of these kinds, without those within texts."""
    found: dict[str, list[int]] = {key: [] for key in DELIMITERS}
    at = 0
    while at < len(text):
        one = text[at]
        if one in "\"'":
            end = at + 1
            while text[end] != one:
                end += 2 if text[end] == "\\" else 1
            is_key = text[end + 1 :].lstrip()[:1] == ":"
            found["key" if is_key else "open"].append(at)
            found["key" if is_key else "close"].append(end)
            at = end
        elif one in ",:{}[]":
            found[{",": "comma", ":": "colon", "{": "brace", "}": "brace"}.get(one, "bracket")].append(at)
        at += 1
    return sorted(place for kind in kinds for place in found[kind])


def damaged(change: Change, python: bool = False, most: int = 6) -> Kind:
    """Return a kind whose object is changed before it is framed."""

    def made(rng: random.Random) -> Reply:
        steps = story(rng, most)
        text = repr({"execution_plan": steps}) if python else body(rng, steps)
        return Reply(framed(rng, change(rng, text)), steps)

    return made


def lost(rng: random.Random, text: str) -> str:
    """Remove one delimiter or several."""
    places = marks(text)
    for place in sorted(rng.sample(places, min(rng.choice((1, 1, 2, 4)), len(places))), reverse=True):
        text = text[:place] + text[place + 1 :]
    return text


def replaced(kinds: Sequence[str], by: Callable[[str], Sequence[str]]) -> Change:
    """Return a change of one delimiter to another text; `{}` in it is the delimiter."""

    def change(rng: random.Random, text: str) -> str:
        place = rng.choice(marks(text, kinds))
        return text[:place] + rng.choice(by(text[place])).replace("{}", text[place]) + text[place + 1 :]

    return change


def cut(write: Callable[[random.Random, Steps], str], least: float = 0.0, more: bool = False) -> Kind:
    """Return a kind that is cut off anywhere after this share. `more`: what is left may look complete."""

    def made(rng: random.Random) -> Reply:
        steps = story(rng)
        text = write(rng, steps).encode()
        text = text[: rng.randint(max(1, int(least * len(text))), len(text) - (not more))]
        meant = [*steps, steps[-1] | {"step_number": len(steps) + 1}] if more else steps
        return Reply(text.decode(errors="ignore"), meant)

    return made


def truncated_and_closed(rng: random.Random) -> Reply:
    """Return a reply that ends at any character and is then closed by a program."""
    steps = story(rng)
    text = body(rng, steps)
    end = rng.choice(("</answer>", '"}]}</answer>', "}]}</answer>", "]}</answer>", '"', "\n```"))
    closed = text[: rng.randint(20, len(text) - 2)] + end
    if _loads(closed.removesuffix("</answer>")) is not None:
        # Complete steps with all brackets: no reader can know.
        return Reply(f"<answer>{text[:-3]}", steps)
    return Reply(f"<answer>{closed}", steps)


def doubled_key(rng: random.Random) -> Reply:
    """Return a step that has one key twice, with other values; the key may be spelled in another way."""
    steps = story(rng)
    step = rng.choice(steps)
    name, others = rng.choice(
        (("prompt", ("prompt", "imagePrompt")), ("auxiliary_text", ("caption", "text")))
    )
    value = None if step[name] and rng.random() < 0.5 else "another boat on a lake"
    text, had = dumped({"execution_plan": steps}), f'"{name}": {dumped(step[name])}'
    place = text.index(had, text.index(f'"step_number": {step["step_number"]},'))
    new = ", ".join(rng.sample([had, f'"{rng.choice(others)}": {dumped(value)}'], 2))
    return Reply(framed(rng, text[:place] + new + text[place + len(had) :]), None)


def one_per_line(rng: random.Random, steps: Steps) -> str:
    frame = rng.choice(("{}", "<answer>\n{}", "```json\n{}", "The steps:\n{}", "[{}", "<answer>[{}"))
    return frame.replace("{}", rng.choice((",\n", "\n", ", ")).join(map(dumped, steps)))


def one_answer_per_step(rng: random.Random) -> Reply:
    """Return one answer or fence for each step, cut off at the token limit."""
    steps = story(rng)
    frame = rng.choice(
        ("<answer>{}</answer>", "```json\n{}\n```", '<answer>{"execution_plan": [{}]}</answer>')
    )
    text = "\n".join(frame.replace("{}", dumped(step)) for step in steps)
    # A first piece alone would be a whole plan of one step.
    second = text.index('"step_name"', text.index('"step_number": 2'))
    more = [*steps, steps[-1] | {"step_number": len(steps) + 1}]
    return Reply(text[: rng.randint(second, len(text))], more)


def lost_or_swapped_chunk(rng: random.Random) -> Reply:
    """Return a reply that lost some characters in a row, or in which two pieces changed places."""
    steps, swaps = story(rng), rng.random() < 0.5
    strip = re.compile(r'\\.|[^"{}\[\],:\n]')
    for _ in range(50):
        text = body(rng, steps)
        a, b, c = sorted(rng.sample(range(2, len(text) - 6), 3))
        new = text[:a] + text[b:c] + text[a:b] + text[c:] if swaps else text[:a] + text[min(b, a + 80) :]
        # A change within one text, or of a whole member or step, leaves a valid plan: no reader can know.
        if _loads(new) is None and strip.sub("", text) != strip.sub("", new):
            return Reply(framed(rng, new), None if swaps else steps)
    return Reply("", steps)


def with_prompt(rng: random.Random) -> Reply:
    """Return a step with an instruction whose prompt is empty, missing, of another type or misspelled."""
    steps = story(rng)
    step = rng.choice(steps)
    step |= {"instruction": "Add a small lantern.", "auxiliary_text": rng.choice((None, "A light!"))}
    step["prompt"] = rng.choice(("", "  \t", ..., 5, True, [], ["a boat"], {"text": "a boat"}))
    if step["prompt"] is ...:
        del step["prompt"]
        if rng.random() < 0.7:
            step[rng.choice(("promt", "prompt_text", "rompt", "draw", "提示词"))] = "a lantern on the boat"
    return Reply(framed(rng, body(rng, steps)), None)


def unescaped(rng: random.Random) -> Reply:
    """Return texts with quotes or line breaks that are not escaped."""
    steps = story(rng)
    for step in steps:
        step["prompt"] = rng.choice(
            ('a sign "OPEN" at the door', 'the "red" boat, "blue" sky', "a boat,\nred")
        )
        step["auxiliary_text"] = rng.choice((None, 'She said "hello", he "hi".', 'It was "late".'))
    return Reply(framed(rng, body(rng, steps).replace('\\"', '"').replace("\\n", "\n")), steps)


def unescaped_keys(rng: random.Random) -> Reply:
    """Return a text that quotes keys without escaping them."""
    steps = story(rng)
    quotes = (
        'a page of code: "prompt": "a fox", end',
        'a note: {"instruction": null, "prompt": "x"} on paper',
    )
    rng.choice(steps)["prompt"] = rng.choice(quotes)
    return Reply(framed(rng, body(rng, steps).replace('\\"', '"')), None)


def list_with_more(rng: random.Random) -> Reply:
    """Return a plan that leaves steps out in words."""
    steps = story(rng)
    more = rng.choice(("...", '"..."', "// and so on", "# more steps", "{...}", "{}", "null", "…"))
    return Reply(framed(rng, f'{{"execution_plan": {dumped(steps[:-1])[:-1]}, {more}]}}'), None)


def enveloped(rng: random.Random, steps: Steps) -> str:
    outer = rng.choice(("result", "plan", "data"))
    inner = rng.choice(("execution_plan", "plan", "steps")) if outer == "plan" else "execution_plan"
    return f"<answer>{dumped({outer: {'reasoning': 'two', inner: steps}})}</answer>"


def part(rng: random.Random) -> Reply:
    """Return a part of a long plan with a damage of another kind."""
    first = rng.choice((1, 5, 9, 13))
    steps = story(rng, 5, first)
    text = body(rng, steps, state="The boat is red, Mia has a hat.")
    forms = (text[: rng.randint(20, len(text) - 1)], lost(rng, text), "\n".join(map(dumped, steps)))
    return Reply(
        f"<think>part</think><answer>{rng.choice(forms)}", steps, False, range(first, first + len(steps))
    )


def whole(write: Callable[[random.Random, Steps], str], closed: bool = False, frame: bool = True) -> Kind:
    """Return a kind that is whole, only in another form."""

    def made(rng: random.Random) -> Reply:
        steps = story(rng)
        text = write(rng, steps)
        return Reply(framed(rng, text, closed) if frame else text, steps, whole=True)

    return made


def whole_part(rng: random.Random) -> Reply:
    first = rng.choice((1, 5, 9, 13))
    steps = story(rng, 5, first)
    given = steps if rng.random() < 0.7 else [one | {"step_number": n} for n, one in enumerate(steps, 1)]
    text = f"<think>a part</think><answer>{body(rng, given, state='Mia has a hat.')}</answer>"
    return Reply(text, steps, True, range(first, first + len(steps)))


def _renamed(steps: Steps, names: dict[str, str]) -> Steps:
    return [{names.get(key, key): value for key, value in step.items()} for step in steps]


def _told_in_instruction(rng: random.Random, steps: Steps) -> str:
    names = {"instruction": "auxiliary_text", "auxiliary_text": "instruction"}
    return body(rng, [one if one["prompt"] else _renamed([one], names)[0] for one in steps])


KINDS: dict[str, Kind] = {
    "lost delimiters": damaged(lost),
    "lost delimiters, Python": damaged(lost, python=True),
    "lost delimiters, long": damaged(lost, most=40),
    "doubled delimiter": damaged(replaced(DELIMITERS, lambda _: ("{}{}",))),
    "other bracket": damaged(replaced(("brace", "bracket"), lambda one: "][" if one in "{}" else "}{")),
    "other punctuation": damaged(replaced(("comma", "colon"), lambda one: "，;|" if one == "," else "：=-")),
    "characters inserted": damaged(
        replaced(("comma", "colon", "close"), lambda _: ("{} x", "{}\\", "{}//", '{}"', "{}\ufffd", "{}</s>"))
    ),
    "wrong quotes": damaged(replaced(("open", "close", "key"), lambda _: "'“”‘’`")),
    "truncated": cut(lambda rng, steps: framed(rng, body(rng, steps))),
    "truncated, then closed": truncated_and_closed,
    "doubled key": doubled_key,
    "plan key twice, cut": cut(
        lambda rng, steps: (
            f'<answer>{{"execution_plan": {dumped(steps[:1])}, "execution_plan": {dumped(steps[1:])}}}'
        ),
        least=0.3,
    ),
    "one object per line, cut": cut(one_per_line, least=0.5, more=True),
    "one answer per step, cut": one_answer_per_step,
    "lost or swapped chunk": lost_or_swapped_chunk,
    "prompt not usable": with_prompt,
    "not escaped": unescaped,
    "quoted keys not escaped": unescaped_keys,
    "steps left out": list_with_more,
    "steps by number, cut": cut(
        lambda rng, steps: (
            f"<answer>{dumped({'execution_plan': {str(one['step_number']): one for one in steps}})}"
        ),
        least=0.5,
    ),
    "envelope, cut": cut(lambda rng, steps: enveloped(rng, steps).removesuffix("</answer>"), least=0.5),
    "encoded text, damaged": damaged(
        lambda rng, text: dumped({"execution_plan": lost(rng, dumped(json.loads(text)["execution_plan"]))})
    ),
    "part of a long plan": part,
    "whole: as asked": whole(body),
    "whole: Python literal": whole(lambda rng, steps: repr({"execution_plan": steps})),
    "whole: trailing commas": whole(
        lambda rng, steps: dumped({"execution_plan": steps}).replace("}]}", "},],}")
    ),
    "whole: number as text": whole(
        lambda rng, steps: body(rng, [one | {"step_number": f"{one['step_number']}"} for one in steps])
    ),
    "whole: no last brace": whole(
        lambda rng, steps: f"<answer>{dumped({'execution_plan': steps})[:-1]}</answer>", frame=False
    ),
    "whole: word None": whole(
        lambda rng, steps: body(
            rng, [{k: "None" if v is None else v for k, v in one.items()} for one in steps]
        )
    ),
    "whole: bare list": whole(lambda rng, steps: dumped(steps), closed=True),
    "whole: one object per line": whole(lambda rng, steps: "\n".join(map(dumped, steps)), closed=True),
    "whole: other names": whole(
        lambda rng, steps: dumped(
            {
                "plan": _renamed(
                    steps, {"step_number": "step", "step_name": "title", "auxiliary_text": "caption"}
                )
            }
        )
    ),
    "whole: envelope": whole(enveloped, frame=False),
    "whole: text in the instruction": whole(_told_in_instruction),
    "whole: part of a long plan": whole_part,
}


def replies(count: int, seed: int = 0) -> Iterator[Reply]:
    """Yield replies of all kinds in turn."""
    names = list(KINDS)
    for number in range(count):
        kind = names[number % len(names)]
        yield replace(KINDS[kind](random.Random(f"{seed} {number}")), kind=kind)


JSON_IN_TEXT = re.compile(
    r"[\"'“”]\s*[:：]\s*[\"'“”{\[nNtTfF\d]|[\"'“”]\s*,\s*[\"'“”]\w+[\"'“”]\s*:|[\"'“”]?(?:step_number|step_name|auxiliary_text)\b"
)


def fault_of(reply: Reply) -> str:
    """Return what is wrong with how a reply is read; empty if nothing is."""
    try:
        steps = (read_part(reply.text, reply.numbers) if reply.numbers else read_plan(reply.text)).steps
    except AnswerError:
        return "not read" if reply.whole else ""
    return _difference(steps, reply.steps)


def _difference(steps: Sequence[Step], meant: Steps | None) -> str:
    if any(JSON_IN_TEXT.search(text) for step in steps for text in (step.name, step.prompt or "")):
        return "JSON in a text"
    if meant is None:
        return "guessed"
    if [step.number for step in steps] != [one["step_number"] for one in meant]:
        return "steps lost"
    read = [(step.name, step.instruction, step.prompt, step.auxiliary_text) for step in steps]
    said = [tuple(one[field] for field in FIELDS) for one in meant]
    return "" if read == said else "other texts"


def _loads(text: str) -> object:
    """Return the value of JSON, which may have commas before brackets."""
    try:
        return json.loads(re.sub(r",\s*(?=[\]}])", "", text))
    except ValueError:
        return None
